"""Neighbourhoods: squared distances, graphs of neighbours, and their repair.

Here belongs what turns points, distances or kernels into edges with lengths.
"""

from sdpkit.graphs.build import angle_closure, neighborhood_graph, spanning_tree
from sdpkit.graphs.distances import SquaredDistances
from sdpkit.graphs.graph import NeighborhoodGraph, require_connected
from sdpkit.graphs.lle import lle_basis
from sdpkit.graphs.repair import (
    MergedGraph,
    bad_edges,
    bridge_components,
    cliques,
    merge_coincident,
    split_components,
    traverse_probability,
)

__all__ = [
    "MergedGraph",
    "NeighborhoodGraph",
    "SquaredDistances",
    "angle_closure",
    "bad_edges",
    "bridge_components",
    "cliques",
    "lle_basis",
    "merge_coincident",
    "neighborhood_graph",
    "require_connected",
    "spanning_tree",
    "split_components",
    "traverse_probability",
]
