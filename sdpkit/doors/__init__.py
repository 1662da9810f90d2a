"""Ways in for people who come from another library: scikit-learn and cvxpy.

Here belongs what speaks another library's language. A door has no mathematics of its own: it
builds a problem, calls `solve`, and shows the result in the visitor's words.
"""
