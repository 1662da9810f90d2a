"""Neighbourhoods: squared distances, graphs of neighbours, and the repair of such graphs.

Here belongs what turns points, distances or kernels into edges with lengths.
"""

from sdpkit.graphs.graph import (
    MergedGraph,
    NeighborhoodGraph,
    SquaredDistances,
    angle_closure,
    bad_edges,
    bridge_components,
    cliques,
    lle_basis,
    merge_coincident,
    neighborhood_graph,
    require_connected,
    spanning_tree,
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
