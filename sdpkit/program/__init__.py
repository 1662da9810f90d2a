"""What a program is: unknowns, squared lengths, rows, objective.

Here belongs what states a semidefinite program or stores one: the common form, its costs and
blocks, families of rows that are searched instead of listed, Gram matrices, files. Nothing here
solves or judges.
"""

from sdpkit.program.block import Block
from sdpkit.program.compilation import maximise, minimise
from sdpkit.program.cost import Cost
from sdpkit.program.expressions import Unknown, Variable, named, stack
from sdpkit.program.form import Program
from sdpkit.program.safe import NormPenalty, SafeBounds
from sdpkit.program.second_order import SecondOrderCone

__all__ = [
    "Block",
    "Cost",
    "NormPenalty",
    "Program",
    "SafeBounds",
    "SecondOrderCone",
    "Unknown",
    "Variable",
    "maximise",
    "minimise",
    "named",
    "stack",
]
