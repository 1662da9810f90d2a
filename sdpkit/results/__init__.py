"""What the user wanted: embeddings, metrics, ellipsoids, and how good they are.

Here belongs what is made from the matrices of a solution, and what is done with it afterwards:
placing new points, refining coordinates, measuring quality.
"""
