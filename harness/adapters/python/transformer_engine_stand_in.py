"""What stands in for transformer_engine_torch, the compiled half of Transformer Engine, where there
is none: its enums, its plain classes, and the kernels of transformer_engine_kernels.py. All of
Transformer Engine's own Python runs as it was released, and nothing of it is changed on disk.

Nothing here may make a step or a state look right that a GPU would not have made: what is not
emulated can be named and passed on, as that happens while modules are imported, but raises when it
is called and says which name it was. And only Transformer Engine may be told that there is a GPU:
torch's own collectives and checkpoints must go on seeing this machine as it is.
"""

from __future__ import annotations

import contextlib
import enum
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import itertools
import os
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

PACKAGE = "transformer_engine"
COMPILED = "transformer_engine_torch"
CAPABILITY = (9, 0)  # of the GPU that Transformer Engine is told of: the first with FP8 and blocks
LIBRARY_VERSIONS = {"get_cublasLt_version": 130000, "get_cudnn_version": 92600}
VARIABLES = {
    "NVTE_PROJECT_BUILDING": "1",  # its own switch: load no CUDA library while it is imported
    "NVTE_TORCH_COMPILE": "0",  # else its small functions are compiled, for seconds
    "NVTE_RELEASE_BUILD": "0",
}


class DType(enum.IntEnum):
    """As the compiled module numbers them; a release's own Python checks that none is missing."""

    kByte = 0
    kInt32 = 2
    kFloat32 = 4
    kFloat16 = 5
    kBFloat16 = 6
    kFloat8E4M3 = 7
    kFloat8E5M2 = 8
    kFloat4E2M1 = 10


GEMMS = (1, 2, 3)
FP8FwdTensors = enum.IntEnum(
    "FP8FwdTensors",
    [f"GEMM{gemm}_{what}" for gemm in GEMMS for what in ("INPUT", "WEIGHT", "OUTPUT")],
    start=0,
)
FP8BwdTensors = enum.IntEnum(
    "FP8BwdTensors",
    [f"GRAD_{what}{gemm}" for gemm in GEMMS for what in ("OUTPUT", "INPUT")],
    start=0,
)


class NotEmulated:
    """A name of the compiled module without a stand-in, or a member of one: an enum of which only
    the identity counts, a function that is kept for later. Calling it is the error."""

    _numbers = itertools.count()

    def __init__(self, name: str) -> None:
        self.__name__ = self.__qualname__ = name
        self._number = next(self._numbers)
        self._members: dict[str, NotEmulated] = {}

    def __call__(self, *arguments: object, **named: object) -> object:
        raise NotImplementedError(f"{self.__name__} has no stand-in: it needs a GPU build of it")

    def __getattr__(self, name: str) -> NotEmulated | dict:
        if name == "__members__":  # some releases compare it with the members that they have used
            return self._members
        if name.startswith("__"):
            raise AttributeError(name)
        return self._members.setdefault(name, NotEmulated(f"{self.__name__}.{name}"))

    def __int__(self) -> int:
        return self._number

    __index__ = __int__


class CompiledModule(types.ModuleType):
    """transformer_engine_torch, as far as it is emulated."""

    def __getattr__(self, name: str) -> NotEmulated:
        if name.startswith("__"):
            raise AttributeError(name)
        value = NotEmulated(f"{COMPILED}.{name}")
        setattr(self, name, value)
        return value


def compiled_module() -> Path | None:
    """The compiled module of this environment, where there is one."""
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{PACKAGE} is not installed")
    package = Path(next(iter(spec.submodule_search_locations)))
    folders = (package.parent, package, package / "wheel_lib")
    found = (file for folder in folders for file in folder.glob(f"{COMPILED}*.so"))
    return next(found, None)


def import_engine() -> list[str]:
    """Imports transformer_engine.pytorch; names what stands in for something, for the results."""
    if compiled_module():
        importlib.import_module(f"{PACKAGE}.pytorch")
        return []
    module = _emulated()
    _tell_engine_of_a_gpu()
    OnCpu().__enter__()
    sys.meta_path.insert(0, _WithoutLibraries(module))
    _give_triton_a_driver()
    with _specs_of(module):
        importlib.import_module(f"{PACKAGE}.pytorch")
    # It took over the names that there were; the others are to be found there as well.
    sys.modules[f"{PACKAGE}.pytorch.cpp_extensions"].__getattr__ = module.__getattr__
    version = importlib.metadata.version(PACKAGE)
    return [f"{COMPILED} {version}: enums, classes and kernels emulated on the CPU"]


def _emulated() -> CompiledModule:
    from harness.adapters.python import transformer_engine_kernels as kernels

    module = CompiledModule(COMPILED)
    module.DType = DType
    module.FP8FwdTensors, module.FP8BwdTensors = FP8FwdTensors, FP8BwdTensors
    module._num_cublas_streams = 4
    module.get_num_cublas_streams = lambda: 4
    for name, number in LIBRARY_VERSIONS.items():
        setattr(module, name, lambda number=number: number)
    for name in ("device_supports_multicast", "ubuf_built_with_mpi"):
        setattr(module, name, lambda *_: False)
    module.is_non_nt_fp8_gemm_supported = lambda *_: False
    for name in ("FP8TensorMeta", "CommOverlapHelper", "CommOverlapBase", "CommOverlapP2PBase"):
        setattr(module, name, type(name, (), {}))
    for name in ("CommOverlap", "CommOverlapP2P"):
        setattr(module, name, type(name, (), {}))
    for function in kernels.EMULATED:
        setattr(module, function.__name__, function)
    return module


class _WithoutLibraries(importlib.abc.MetaPathFinder):
    """Lets transformer_engine.common be imported as it is, then answers for it where it would look
    for a file of the compiled module: each release looks in another way."""

    def __init__(self, module: CompiledModule) -> None:
        self._module = module

    def find_spec(self, name: str, path: object, target: object = None) -> object:
        if name != f"{PACKAGE}.common":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module

        def exec_module(common: types.ModuleType) -> None:
            execute(common)
            sys.modules[COMPILED] = self._module
            if hasattr(common, "load_framework_extension"):
                common.load_framework_extension = lambda framework: None
            if hasattr(common, "get_te_path"):
                common.get_te_path = _NoFolder
                common.is_package_installed = lambda package: False

        spec.loader.exec_module = exec_module
        return spec


class _NoFolder:
    """A folder in which nothing but the compiled module is found, where releases up to 2.3 look."""

    def __truediv__(self, name: str) -> _NoFolder:
        return self

    def glob(self, pattern: str) -> Iterator[str]:
        return iter([pattern] if pattern.startswith(COMPILED) else [])


class _Loader(importlib.abc.Loader):
    def __init__(self, module: CompiledModule) -> None:
        self._module = module

    def create_module(self, spec: object) -> CompiledModule:
        return self._module

    def exec_module(self, module: object) -> None:
        pass


@contextlib.contextmanager
def _specs_of(module: CompiledModule) -> Iterator[None]:
    """While Transformer Engine is imported, the file that it found is the stand-in."""
    original = importlib.util.spec_from_file_location

    def spec_from_file_location(name: str, *arguments: object, **named: object) -> object:
        if name == COMPILED:
            return importlib.machinery.ModuleSpec(name, _Loader(module))
        return original(name, *arguments, **named)

    importlib.util.spec_from_file_location = spec_from_file_location
    try:
        yield
    finally:
        importlib.util.spec_from_file_location = original


def _give_triton_a_driver() -> None:
    """Kernels decorated with triton.autotune ask for one while they are imported."""
    try:
        from triton.backends.compiler import GPUTarget
        from triton.runtime import driver
    except ImportError:
        return
    target = GPUTarget("cuda", 10 * CAPABILITY[0] + CAPABILITY[1], 32)
    driver.set_active(
        types.SimpleNamespace(
            get_benchmarker=lambda: NotEmulated("triton's benchmarker"),
            get_current_device=lambda: 0,
            get_current_stream=lambda *_: 0,
            get_current_target=lambda: target,
        )
    )


class OnCpu(torch.overrides.TorchFunctionMode):
    """Whatever asks for a tensor on a GPU gets one on the CPU; Transformer Engine alone is told
    that it is on a GPU. A thread of its own needs a mode of its own."""

    def __torch_function__(
        self, function: Callable, kinds: object, arguments: tuple = (), named: dict | None = None
    ) -> object:
        named = dict(named or {})
        if function == _IS_CUDA and _called_by_engine(1):
            return True
        if "device" in named:
            named["device"] = _on_cpu(named["device"])
        if function is torch.Tensor.to:
            arguments = tuple(
                _on_cpu(a) if isinstance(a, (str, torch.device)) else a for a in arguments
            )
        return function(*arguments, **named)


_IS_CUDA = torch.Tensor.is_cuda.__get__


def _on_cpu(device: object) -> object:
    is_index = isinstance(device, int) and not isinstance(device, bool)
    is_cuda = is_index or (device is not None and torch.device(device).type == "cuda")
    return torch.device("cpu") if is_cuda else device


def _called_by_engine(above: int) -> bool:
    """Whether the function `above` frames over the caller's belongs to Transformer Engine."""
    name = sys._getframe(above + 1).f_globals.get("__name__", "")
    return name == PACKAGE or name.startswith(f"{PACKAGE}.")


class _Stream:
    cuda_stream = 0

    def wait_stream(self, other: object) -> None:
        pass

    wait_event = wait_stream

    def synchronize(self) -> None:
        pass


_DEVICE = types.SimpleNamespace(
    major=CAPABILITY[0],
    minor=CAPABILITY[1],
    name="no GPU",
    multi_processor_count=132,
    total_memory=1 << 36,
)
_TOLD_OF_CUDA: dict[str, Callable] = {
    "is_available": lambda: True,
    "synchronize": lambda *_: None,
    "current_device": lambda: 0,
    "get_device_properties": lambda *_: _DEVICE,
    "get_device_capability": lambda *_: (_DEVICE.major, _DEVICE.minor),
    "is_current_stream_capturing": lambda: False,
    "current_stream": lambda *_: _Stream(),
    "get_rng_state": lambda *_: torch.get_rng_state(),
}


def _tell_engine_of_a_gpu() -> None:
    for name, answer in _TOLD_OF_CUDA.items():
        setattr(torch.cuda, name, _told(getattr(torch.cuda, name), answer))
    load = torch.load

    def load_on_cpu(file: object, map_location: object = None, **named: object) -> object:
        if _called_by_engine(1) and map_location is not None:
            map_location = _on_cpu(map_location)
        return load(file, map_location=map_location, **named)

    torch.load = load_on_cpu
    # Backward functions run without the mode below.
    torch.Tensor.cuda = _told(torch.Tensor.cuda, lambda tensor, *_: tensor)


def _told(original: Callable, answer: Callable) -> Callable:
    def function(*arguments: object, **named: object) -> object:
        return answer(*arguments) if _called_by_engine(1) else original(*arguments, **named)

    return function


def emulation_variables() -> dict[str, str]:
    """What Transformer Engine must find in the environment while it is imported; none of it where
    it is whole."""
    return {} if compiled_module() else dict(VARIABLES)


def tell_capability(capability: tuple[int, int]) -> None:
    """Which GPU Transformer Engine is told of; recipes ask for it when they are first used."""
    _DEVICE.major, _DEVICE.minor = capability


def set_update(fused: bool) -> None:
    """Which form of the scale update is taken; the variable is read at each update."""
    os.environ["NVTE_UNFUSED_FP8_UPDATE"] = "0" if fused else "1"
