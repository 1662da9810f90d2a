"""
Handwritten ones
================

Images of 64 pixels (scikit-learn's scans of handwritten digits). Neighbouring images keep their
distance, and the two coordinates that remain show how the ones differ.
"""

import matplotlib.pyplot as plt
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from sklearn.datasets import load_digits

import sdpkit

images, digit = load_digits(return_X_y=True)
ones = images[digit == 1][:140]
problem = sdpkit.MVU(ones, n_neighbors=5, form="inequality", connect="bridge")
solution = sdpkit.solve(problem, tol=1e-4)
embedding = problem.recover(solution, n_components=2)

figure, ax = plt.subplots(figsize=(8, 5.5))
ax.scatter(*embedding.coordinates.T, s=4)
for (x, y), image in zip(embedding.coordinates[::3], ones[::3], strict=True):
    picture = OffsetImage(image.reshape(8, 8), cmap="gray_r", zoom=2.5)
    ax.add_artist(AnnotationBbox(picture, (x, y), frameon=False))
plt.show()

# %%
print(embedding)
