"""
A map from distances
====================

Distances between twelve European cities along the Earth's surface, and nothing else. Distances in
the plane that are as large as possible, but no larger than these, give the map back, up to its
bending.
"""

import matplotlib.pyplot as plt
import numpy as np

import sdpkit

# Latitude and longitude in degrees; only the distances computed from them are used below.
cities = {
    "Athens": (38.0, 23.7),
    "Berlin": (52.5, 13.4),
    "Dublin": (53.3, -6.3),
    "Helsinki": (60.2, 24.9),
    "Lisbon": (38.7, -9.1),
    "London": (51.5, -0.1),
    "Madrid": (40.4, -3.7),
    "Oslo": (59.9, 10.8),
    "Paris": (48.9, 2.3),
    "Rome": (41.9, 12.5),
    "Vienna": (48.2, 16.4),
    "Warsaw": (52.2, 21.0),
}
angles = np.radians(np.array(list(cities.values())))
latitude, longitude = angles.T
equator = np.cos(latitude)
u = np.stack([equator * np.cos(longitude), equator * np.sin(longitude), np.sin(latitude)], axis=1)
kilometres = 6371 * np.arccos(np.clip(u @ u.T, -1, 1))
np.fill_diagonal(kilometres, 0)

problem = sdpkit.MVU(distances=kilometres, n_neighbors=11, form="inequality")
embedding = problem.recover(sdpkit.solve(problem), n_components=2)
drawn = sdpkit.quality.aligned(embedding.coordinates, np.degrees(angles[:, ::-1]) * [71, 111])
plt.scatter(*drawn.T)
for name, place in zip(cities, drawn, strict=True):
    plt.annotate(name, place, xytext=(4, 4), textcoords="offset points")
plt.axis("equal")
plt.xlabel("km")
plt.show()

# %%
print(embedding)
