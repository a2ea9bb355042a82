"""Access to memory by address, and machine instructions that numba does not provide.

A schema is only known at run time. If its columns were arguments of a compiled function, numba
would compile the function for each schema. So the function gets addresses.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

_Numba: TypeAlias = Any
"""numba's own objects are untyped."""
_Made = tuple[_Numba, Callable[..., _Numba]]

_raw_memcpy: _Numba = cgutils.raw_memcpy


def _loading(kind: _Numba, bits: int) -> Callable[..., _Made]:
    def load(typing_context: _Numba, address: _Numba) -> _Made:
        def generate(context: _Numba, builder: _Numba, signature: _Numba, given: _Numba) -> _Numba:
            pointer = builder.inttoptr(given[0], ir.IntType(bits).as_pointer())
            loaded = builder.load(pointer)
            loaded.align = 1
            return loaded

        return kind(types.intp), generate

    return load


def _storing(kind: _Numba, bits: int) -> Callable[..., _Made]:
    def store(typing_context: _Numba, address: _Numba, value: _Numba) -> _Made:
        def generate(context: _Numba, builder: _Numba, signature: _Numba, given: _Numba) -> _Numba:
            pointer = builder.inttoptr(given[0], ir.IntType(bits).as_pointer())
            builder.store(given[1], pointer).align = 1
            return context.get_dummy_value()

        return types.void(types.intp, kind), generate

    return store


def _copy(typing_context: _Numba, target: _Numba, source: _Numba, size: _Numba) -> _Made:
    def generate(context: _Numba, builder: _Numba, signature: _Numba, given: _Numba) -> _Numba:
        to, start, count = given
        pointer = cgutils.voidptr_t
        _raw_memcpy(
            builder, builder.inttoptr(to, pointer), builder.inttoptr(start, pointer), count, 1
        )
        return context.get_dummy_value()

    return types.void(types.intp, types.intp, types.intp), generate


def _high(typing_context: _Numba, left: _Numba, right: _Numba) -> _Made:
    """The upper half of the product of two 64-bit numbers."""

    def generate(context: _Numba, builder: _Numba, signature: _Numba, given: _Numba) -> _Numba:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(given[0], wide), builder.zext(given[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return types.uint64(types.uint64, types.uint64), generate


def _zeros(leading: bool) -> Callable[..., _Made]:
    def count(typing_context: _Numba, value: _Numba) -> _Made:
        def generate(context: _Numba, builder: _Numba, signature: _Numba, given: _Numba) -> _Numba:
            counting = builder.ctlz if leading else builder.cttz
            return counting(given[0], ir.Constant(ir.IntType(1), 0))

        return types.uint64(types.uint64), generate

    return count


load_word: _Numba = intrinsic(_loading(types.uint64, 64))
load_byte: _Numba = intrinsic(_loading(types.uint8, 8))
load_end: _Numba = intrinsic(_loading(types.int32, 32))
store_number: _Numba = intrinsic(_storing(types.int64, 64))
store_byte: _Numba = intrinsic(_storing(types.uint8, 8))
store_end: _Numba = intrinsic(_storing(types.int32, 32))
copy: _Numba = intrinsic(_copy)
product_high: _Numba = intrinsic(_high)
leading_zeros: _Numba = intrinsic(_zeros(True))
trailing_zeros: _Numba = intrinsic(_zeros(False))
