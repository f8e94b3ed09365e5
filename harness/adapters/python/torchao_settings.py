"""What torchao makes of the settings of a scenario, decided without importing it: which optimizer
class, which ways of saving, which steps are compiled, how codes of four bits lie in memory.

Anything here that is wrong trains another run than the one that was asked for, on both sides of
the comparison, so that no comparison can see it; hence its own tests, which need no framework.
"""

from __future__ import annotations

from harness.adapters.python.phase_request import PhaseRequest, Settings

COMPILED = "torchao_compiled"  # the one profile whose steps are compiled
THRESHOLD = 4096  # elements of a rank's shard; not to be set in torchao
CLASS_OF = {
    "adamw8bit": "AdamW8bit",
    "adamw4bit": "AdamW4bit",
    "adamwfp8": "AdamWFp8",
    "adamw": "_AdamW",  # never quantised; torchao has no public name for it
}
WRAPS = ("fsdp2", "none", "fsdp2_matrices", "fsdp2_cpu_offload")
# Way of saving -> the StateDictOptions with which states are taken and set.
OPTIONS_OF = {
    "dcp": {},
    "dcp_flattened": {"flatten_optimizer_state_dict": True},
    "dcp_cpu_offload": {"cpu_offload": True},
    "full": {"full_state_dict": True, "cpu_offload": True},
}
OWN_STATE_DICTS = ("torch_save", "state_dict")  # each rank its own: they keep to their mesh

_HIGH_FIRST = bytes.maketrans(b"0123456789abcdef", bytes(range(16)))


def why_not(request: PhaseRequest) -> str | None:
    """Why no version of torchao can run the request; None where only the version decides."""
    settings, optimizer = request.settings, request.settings.optimizer
    if optimizer.name not in CLASS_OF:
        return f"torchao has no optimizer {optimizer.name}"
    if optimizer.min_quantised_elements != THRESHOLD:
        return f"torchao quantises from {THRESHOLD} elements on; that cannot be set"
    if settings.master_dtype:
        return "torchao's optimizers keep no master weights"
    if wrap_of(request) not in WRAPS:
        return f"the torchao adapter has no wrap {wrap_of(request)}"
    if wrap_of(request) == "none" and request.world > 1:
        return "wrap = none is for one rank: plain tensors have no shards"
    if settings.save_format not in (*OPTIONS_OF, *OWN_STATE_DICTS):
        return f"the torchao adapter has no way of saving {settings.save_format}"
    if request.mesh != request.save_mesh:
        if settings.save_format in OWN_STATE_DICTS:
            return f"{settings.save_format} checkpoints load on the mesh that saved them only"
        if optimizer.stochastic_rounding:
            return "torch's generators belong to ranks: stochastic rounding keeps to its mesh"
    return None


def wrap_of(request: PhaseRequest) -> str:
    return str(request.options.get("wrap", "fsdp2"))


def is_compiled(settings: Settings, step: int) -> bool:
    """Whether a step (1-based) is compiled: the profile may change right after the save."""
    optimizer = settings.optimizer
    changed = step > settings.save_after and optimizer.profile_after_save
    return (optimizer.profile_after_save if changed else optimizer.profile) == COMPILED


def not_as_asked(compiled: bool, before: int, after: int) -> str | None:
    """What is wrong with a step, from the graphs that were compiled before and after it. A user's
    TORCH_COMPILE_DISABLE or a fallback runs eager steps under the compiled profile, and a resume
    that is wrong only when compiled then passes."""
    if compiled and after == 0:
        return "was to be compiled, and no graph was: look for TORCH_COMPILE_DISABLE=1"
    if not compiled and after != before:
        return f"was to be eager, and {after - before} graphs were compiled"
    return None


def one_byte_a_code(packed: bytes) -> bytes:
    """Codes of four bits, two in a byte, the earlier one in the high half."""
    return packed.hex().encode().translate(_HIGH_FIRST)
