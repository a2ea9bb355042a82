"""CRC-32C by the machine's own instruction, over any buffer, without a copy.

The extension module is loaded by itself: the `crc32c` package around it reads its own version with
`importlib.metadata` when imported, and the 50 ms which that takes would be a sixth of a broker's
start. If the package is ever laid out differently, its public name is used.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

from headrace.records.buffer import Buffer

_EXTENSION = "crc32c._crc32c"


def _load() -> Callable[[Buffer], int]:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        spec = PathFinder.find_spec(_EXTENSION, list(package.submodule_search_locations))
        if spec is not None and spec.loader is not None:
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            extension: Callable[[Buffer], int] = module.crc32c
            return extension
    from crc32c import crc32c  # an editable or repackaged install

    return crc32c


crc32c = _load()
