"""CRC-32C by the processor's instruction, over any buffer, without a copy.

The extension module is loaded without its package: on import, the `crc32c` package reads its own
version with `importlib.metadata`, which takes 50 ms, a sixth of a broker's start. If the extension
module is not found, the package is imported.
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
