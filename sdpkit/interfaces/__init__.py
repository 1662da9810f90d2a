"""Estimators for scikit-learn: fit, transform and predict on top of problems and `solve`.

Here belongs what follows scikit-learn's conventions: checking of data, fitted attributes, files of
fitted estimators, grid search with warm starts.
"""
