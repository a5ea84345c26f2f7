"""Eight doubles at a time: the few vector operations that the innermost loops of chains are written in.

Why: LLVM's loop vectoriser guards every short loop against overlapping arrays and leaves what is over a multiple of
sixteen to scalar code, which for 17 or 45 labels is most of the time (a chain of 17 labels: 230 ns a token with plain
loops, 110 ns with these). A processor without 512-bit registers takes a vector in two or four parts.

An array that is read or written this way needs SLACK more entries after its last one (:func:`with_slack`): the vector
that holds the end of a row holds the beginning of the next as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, models, register_model

LANES = 8
SLACK = LANES

_DOUBLE = ir.DoubleType()
_VECTOR = ir.VectorType(_DOUBLE, LANES)
_INT32 = ir.IntType(32)
_FIRST = ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES)
# a·b + c may be one instruction; sums are not reordered.
_FUSE = ("contract",)


def with_slack(shape: tuple[int, ...], *, zeros: bool = False) -> Any:
    """A C-contiguous float64 array that may be read and written SLACK entries past its end (those are zeros)."""
    n = int(np.prod(shape))
    flat = np.zeros(n + SLACK) if zeros else np.empty(n + SLACK)
    flat[n:] = 0.0
    return flat[:n].reshape(shape)


def has_slack(array: Any) -> bool:
    """Whether an array was made by :func:`with_slack`, and not cut out of one."""
    base = array.base
    return (
        isinstance(base, np.ndarray)
        and base.dtype == array.dtype
        and base.ndim == 1
        and array.flags.c_contiguous
        and base.size == array.size + SLACK
        and base.ctypes.data == array.ctypes.data
    )


class Lanes(types.Type):  # type: ignore[misc]
    """Eight doubles."""

    def __init__(self) -> None:
        super().__init__(name="Lanes8")


lanes = Lanes()


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, kind):
        super().__init__(manager, kind, _VECTOR)


def _pointer(context, builder, kind, array, index):
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), _VECTOR.as_pointer())


def _splat(builder, number):
    first = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, _INT32(0))
    return builder.shuffle_vector(
        first, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(ir.VectorType(_INT32, LANES), [0] * LANES)
    )


@intrinsic
def load(typing, array, index):
    """Entries index .. index + 7 of an array, counted flat."""

    def code(context, builder, signature, arguments):
        vector = builder.load(_pointer(context, builder, signature.args[0], *arguments))
        vector.align = 8
        return vector

    return lanes(array, types.intp), code


@intrinsic
def store(typing, array, index, vector):
    """Write entries index .. index + 7 of an array, counted flat."""

    def code(context, builder, signature, arguments):
        array, index, vector = arguments
        written = builder.store(vector, _pointer(context, builder, signature.args[0], array, index))
        written.align = 8
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), code


@intrinsic
def splat(typing, number):
    """The same number eight times."""

    def code(context, builder, signature, arguments):
        return _splat(builder, arguments[0])

    return lanes(types.float64), code


@intrinsic
def add(typing, a, b):
    """a + b."""

    def code(context, builder, signature, arguments):
        return builder.fadd(*arguments)

    return lanes(lanes, lanes), code


@intrinsic
def multiply(typing, a, b):
    """a · b."""

    def code(context, builder, signature, arguments):
        return builder.fmul(*arguments)

    return lanes(lanes, lanes), code


@intrinsic
def add_scaled(typing, total, number, vector):
    """total + number · vector."""

    def code(context, builder, signature, arguments):
        total, number, vector = arguments
        return builder.fadd(total, builder.fmul(_splat(builder, number), vector, flags=_FUSE), flags=_FUSE)

    return lanes(lanes, types.float64, lanes), code


@intrinsic
def keep(typing, vector, count):
    """The first ``count`` entries, and 0 for the others."""

    def code(context, builder, signature, arguments):
        vector, count = arguments
        int64 = ir.IntType(64)
        wide = ir.VectorType(int64, LANES)
        first = builder.insert_element(ir.Constant(wide, ir.Undefined), count, _INT32(0))
        everywhere = builder.shuffle_vector(first, ir.Constant(wide, ir.Undefined), _FIRST)
        inside = builder.icmp_signed("<", ir.Constant(wide, list(range(LANES))), everywhere)
        return builder.select(inside, vector, ir.Constant(_VECTOR, [0.0] * LANES))

    return lanes(lanes, types.int64), code


@intrinsic
def larger(typing, a, b):
    """The larger of each two entries; of a number and NaN the number ``b``."""

    def code(context, builder, signature, arguments):
        a, b = arguments
        return builder.select(builder.fcmp_ordered(">", a, b), a, b)

    return lanes(lanes, lanes), code


@intrinsic
def smaller(typing, a, b):
    """The smaller of each two entries; of a number and NaN the number ``b``."""

    def code(context, builder, signature, arguments):
        a, b = arguments
        return builder.select(builder.fcmp_ordered("<", a, b), a, b)

    return lanes(lanes, lanes), code


def _fold(builder, vector, combine):
    width = LANES
    while width > 1:
        width //= 2
        halves = (
            builder.shuffle_vector(
                vector, vector, ir.Constant(ir.VectorType(_INT32, width), list(range(start, start + width)))
            )
            for start in (0, width)
        )
        vector = combine(*halves)
    return builder.extract_element(vector, _INT32(0))


@intrinsic
def total(typing, vector):
    """Sum of the eight, in halves."""

    def code(context, builder, signature, arguments):
        return _fold(builder, arguments[0], builder.fadd)

    return types.float64(lanes), code


@intrinsic
def largest(typing, vector):
    """The largest of the eight."""

    def code(context, builder, signature, arguments):
        return _fold(builder, arguments[0], lambda a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b))

    return types.float64(lanes), code


def _plain() -> dict[str, Any]:
    """The same operations in NumPy, for who debugs kernels as plain Python."""

    def eight(array: Any, index: int) -> Any:
        return np.lib.stride_tricks.as_strided(array.reshape(-1)[index:], (LANES,))

    def write(array: Any, index: int, vector: Any) -> None:
        eight(array, index)[:] = vector

    return {
        "load": lambda array, index: eight(array, index).copy(),
        "store": write,
        "splat": lambda number: np.full(LANES, number),
        "add": np.add,
        "multiply": np.multiply,
        "add_scaled": lambda total, number, vector: total + number * vector,
        "keep": lambda vector, count: np.where(np.arange(LANES) < count, vector, 0.0),
        "larger": np.fmax,
        "smaller": np.fmin,
        "total": np.sum,
        "largest": np.max,
    }


if config.DISABLE_JIT:
    globals().update(_plain())
