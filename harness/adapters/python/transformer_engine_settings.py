"""What the Transformer Engine adapter makes of a scenario's settings, decided without importing
torch: which modules a layer is made of, under which names their parameters go, which amaxes they
are told, how the 24 samples of a step are divided.

A wrong name or a wrong sample here trains another run than the one that was asked for, on both
sides of the comparison, so that no comparison can see it; hence its own tests.
"""

from __future__ import annotations

import dataclasses

from harness.adapters.python import philox
from harness.adapters.python.phase_request import PhaseRequest, Settings, chunk

PACKAGE = "transformer_engine"
RELEASES_FOR_STEPS = (2, 1)  # the first whose kernels have stand-ins; before it, state alone
SAMPLES = 24  # of a step
DATA_EXPONENT = -11
WHOLE_BLOCK = 16  # FP8 GEMMs take widths that are multiples of this
WHOLE_ROWS = 8  # and as many samples at once
MODULES = ("layernorm_mlp", "linear", "layernorm_linear")
WRAPS = ("fsdp2", "none")
BEFORE_LOAD = ("fresh", "init_fp8_metadata", "placeholder", "left_out")
SAVE_FORMATS = ("dcp", "torch_save", "extra_state")
PER_RANK = "@rank"  # behind the name of what each rank keeps for itself


@dataclasses.dataclass(frozen=True)
class Fp8Module:
    """name: its FQN. ordinal: keys the amaxes that it is told. gemms: whose tensors it scales."""

    name: str
    ordinal: int
    gemms: int


def option(request: PhaseRequest, name: str, default: str) -> str:
    return str(request.options.get(name, default))


def module_of(request: PhaseRequest) -> str:
    return option(request, "module", MODULES[0])


def wrap_of(request: PhaseRequest) -> str:
    return option(request, "wrap", WRAPS[0])


def why_not(request: PhaseRequest) -> str | None:
    """Why no release can run the request; None where only the installed one decides."""
    settings = request.settings
    if settings.model.kind != "layernorm_mlp":
        return 'the transformer_engine adapter needs [model] kind = "layernorm_mlp"'
    if settings.optimizer.name != "adamw" or settings.optimizer.stochastic_rounding:
        return "the transformer_engine adapter trains with torch's AdamW: optimizer adamw"
    if settings.master_dtype:
        return "the transformer_engine adapter keeps no master weights"
    if settings.save_format not in SAVE_FORMATS:
        return f"the transformer_engine adapter has no way of saving {settings.save_format}"
    if wrap_of(request) == "none" and request.world > 1:
        return "wrap = none holds plain tensors on one rank: no shards and no replicas"
    if request.mesh != request.save_mesh:
        if settings.save_format == "torch_save" and wrap_of(request) != "none":
            return "torch_save checkpoints of shards load on the mesh that saved them only"
        if not settings.fp8.reduce_amax:
            return "without reduce_amax each rank has scales of its own: they keep to their mesh"
    return _why_no_steps(request) if settings.gradients == "model" else None


def _why_no_steps(request: PhaseRequest) -> str | None:
    settings = request.settings
    for name, size in (("width", settings.model.width), ("hidden", settings.model.hidden)):
        if size % WHOLE_BLOCK:
            return f"FP8 GEMMs need multiples of {WHOLE_BLOCK}: {name} is {size}"
    for batch in batches(request, 0):
        if len(batch) % WHOLE_ROWS:
            return (
                f"FP8 GEMMs need multiples of {WHOLE_ROWS} samples at once, "
                f"and there are {len(batch)}"
            )
    return None


def modules(request: PhaseRequest) -> list[Fp8Module]:
    """Of the whole model, in order."""
    layers = range(request.settings.model.layers)
    if module_of(request) == "layernorm_mlp":
        return [Fp8Module(f"layers.{i}", i, 2) for i in layers]
    return [
        Fp8Module(f"layers.{i}.{name}", 2 * i + k, 1)
        for i in layers
        for k, name in enumerate(("fc1", "fc2"))
    ]


def name_in_engine(kind: str, name: str) -> str:
    """Where a parameter lies in a model of such modules: layers.0.norm.weight lies in
    layers.0.layer_norm_weight of a LayerNormMLP."""
    layers, index, module, leaf = name.split(".")
    path = f"{layers}.{index}"
    if kind == "layernorm_mlp":
        prefix = "layer_norm" if module == "norm" else module
        return f"{path}.{prefix}_{leaf}"
    if kind == "layernorm_linear" and module == "norm":
        return f"{path}.fc1.layer_norm_{leaf}"
    return name


def injected_amaxes(
    settings: Settings, module: Fp8Module, step: int, backward: bool, rank: int, world: int
) -> list[float]:
    """What each column of the module's row 0 is told: 0 where a GEMM has no such tensor; of the
    ranks one sees the amax, the others half of it, so that only the maximum over all is right."""
    tensors = 2 if backward else 3  # of a GEMM; the last of them is never cast to FP8
    columns = range(tensors * module.gemms)

    def told(column: int) -> float:
        if column % tensors == tensors - 1:
            return 0.0
        largest = philox.amax(settings.seed, module.ordinal, step, backward, column)
        return largest if (step + column) % world == rank else largest / 2

    return [told(column) for column in columns]


def batches(request: PhaseRequest, rank: int) -> list[range]:
    """A rank's micro-batches of a step: samples go in order to all ranks that hold data, replicas
    too, and inside a rank to its micro-batches."""
    coordinates = request.coordinates(rank)
    index = coordinates.get("rep", 0) * request.size_of("dp") + coordinates.get("dp", 0)
    mine = chunk(SAMPLES, request.world, index)
    count = request.settings.accumulate
    parts = [chunk(len(mine), count, k) for k in range(count)]
    return [range(mine.start + p.start, mine.start + p.stop) for p in parts]


def samples(settings: Settings, stream: philox.Stream, step: int, rows: range):
    """fp32 features of some samples of a step, flattened."""
    width = settings.model.width
    first, count = rows.start * width, len(rows) * width
    return philox.grid_values(settings.seed, stream, 0, step, first, count, DATA_EXPONENT)
