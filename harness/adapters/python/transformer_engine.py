"""Transformer Engine's FP8 modules: its own Python of the installed release, on a GPU as it is, and
elsewhere over a stand-in for its compiled half, which the results name.

Under order-free gradients the amaxes are told to the modules, and only the real state machine runs:
buffers, reduction over ranks, update. Under gradients of the model real steps run, whose sums are
those of one machine, so a resumed run keeps to its mesh. The stand-in gives tensors on a GPU as
tensors on the CPU; whoever imports transformer_engine without it gets a module without classes.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
from collections.abc import Iterator
from pathlib import Path

from harness.adapters.python.adapter import Adapter, set_before_import
from harness.adapters.python.phase_request import Optimizer, PhaseRequest
from harness.adapters.python.philox import Stream
from harness.adapters.python.state_file import Piece
from harness.adapters.python.transformer_engine_settings import (
    PER_RANK,
    RELEASES_FOR_STEPS,
    Fp8Module,
    batches,
    injected_amaxes,
    module_of,
    modules,
    name_in_engine,
    option,
    samples,
    why_not,
    wrap_of,
)

VARIABLES = set_before_import(
    {
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # else importing it starts processes and a thread
        "MKL_CBWR": "AVX2",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed import fsdp  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402

from harness.adapters.python import transformer_engine_stand_in as stand_in  # noqa: E402

VARIABLES |= set_before_import(stand_in.emulation_variables())
STAND_INS = stand_in.import_engine()

import transformer_engine.pytorch as te  # noqa: E402
from transformer_engine.common import recipe as recipes  # noqa: E402
from transformer_engine.pytorch.fp8 import FP8GlobalStateManager  # noqa: E402

from harness.adapters.python import (  # noqa: E402
    transformer_engine_checkpoint,
    transformer_engine_state,
)
from harness.adapters.python.torch_ranks import (  # noqa: E402
    PARAM_DTYPES,
    device_mesh,
    distributed_as,
    join,
    tensor_of,
    too_few_gpus,
)

torch.set_num_threads(1)

EPS = 2.0**-16  # of the layer norm
RECIPES = {
    "current": "Float8CurrentScaling",
    "block": "Float8BlockScaling",
    "mxfp8": "MXFP8BlockScaling",
}
FORMATS = {"hybrid": "HYBRID", "e4m3": "E4M3"}
ASKED_FOR = {  # what Transformer Engine itself says of a recipe on this GPU
    "current": "is_fp8_available",
    "block": "is_fp8_block_scaling_available",
    "mxfp8": "is_mxfp8_available",
}
FIRST_GPU_OF = {"mxfp8": (10, 0)}  # compute capability; FP8 and blocks of it need 9.0


class TransformerEngine(Adapter):
    variables = VARIABLES
    packages = ("torch", "transformer_engine")
    stand_ins = tuple(STAND_INS)
    model: nn.Module
    optimizer: torch.optim.Optimizer
    # Of this rank's samples at the last step behind the save: a resumed run has no other.
    loss = 0.0

    @classmethod
    def supports(cls, request: PhaseRequest) -> str | None:
        reason = why_not(request) or _lacking(request)
        if reason or request.device != "cuda":
            return reason
        if cls.stand_ins:
            return "transformer_engine_torch, its compiled half, is not installed"
        return too_few_gpus(request)

    def build(self) -> None:
        self.device = join(self.request, self.place)
        stand_in.set_update(self.settings.fp8.update == "fused")
        allowed = option(self.request, "unsafe_pickle", "allowed") == "allowed"
        os.environ["NVTE_ALLOW_UNSAFE_PICKLE_EXTRA_STATE"] = "1" if allowed else "0"
        self.recipe = self.recipe_with()
        self.model = self.fresh(self.settings.init_seed)
        self.optimizer = self.optimizer_for(self.model, self.first_optimizer)

    def step(self, number: int) -> None:
        if self.settings.gradients == "model":
            self._train_on_samples(number)
        else:
            self._train_on_what_is_told(number)
        self.optimizer.step()

    def save(self, folder: Path) -> None:
        transformer_engine_checkpoint.save(self, folder)

    def load(self, folder: Path) -> None:
        transformer_engine_checkpoint.load(self, folder)

    def state(self) -> tuple[list[Piece], dict[str, bool | int | float | str]]:
        pieces, values = [], {}
        for name, parameter in self.parameters():
            state = self.optimizer.state.get(parameter, {})
            pieces += transformer_engine_state.parameter_pieces(name, parameter, state)
        for module, layer in self.fp8_modules():
            name = module.name
            if not self.settings.fp8.reduce_amax:
                name += f"{PER_RANK}{self.place.rank}"
            pieces += transformer_engine_state.fp8_pieces(name, layer)
            words = transformer_engine_state.recipe_words(layer)
            if words:
                values[f"fp8.recipe/{module.name}"] = words
        groups = self.optimizer.param_groups
        values |= {f"lr/{i}": float(group["lr"]) for i, group in enumerate(groups)}
        if self.settings.gradients == "model":
            values[f"loss/rank{self.place.rank}"] = self.loss
        return pieces, values

    def close(self) -> None:
        dist.destroy_process_group()

    def fresh(self, seed: int) -> nn.Module:
        """Blocks of the kind that the scenario asks for, sharded as it says."""
        settings, kind = self.settings, module_of(self.request)
        model = _Model(kind, settings.model.layers, *self._sizes())
        found = dict(model.named_parameters())
        with torch.no_grad():
            for name, shape in settings.parameters.items():
                values = settings.initial_values(name, range(shape[0]), seed)
                parameter = found.pop(name_in_engine(kind, name))
                parameter.copy_(torch.frombuffer(values, dtype=torch.float32).reshape(shape))
        if found:
            raise ValueError(f"parameters without a name: {', '.join(found)}")
        if wrap_of(self.request) == "fsdp2":
            fsdp.fully_shard(model, mesh=device_mesh(self.request, self.device))
        return model

    def optimizer_for(self, model: nn.Module, given: Optimizer) -> torch.optim.Optimizer:
        return torch.optim.AdamW(
            model.parameters(),
            lr=given.lr,
            betas=given.betas,
            eps=given.eps,
            weight_decay=given.weight_decay,
            foreach=False,
        )

    def recipe_with(self, **changes: object) -> object:
        """The scenario's recipe, or one that differs in some settings of delayed scaling."""
        wanted = self.settings.fp8
        if wanted.recipe in RECIPES:
            return getattr(recipes, RECIPES[wanted.recipe])()
        if not wanted.recipe:
            return None
        given = {
            "margin": wanted.margin,
            "fp8_format": getattr(recipes.Format, FORMATS[wanted.format]),
            "amax_history_len": wanted.amax_history_len,
            "amax_compute_algo": wanted.amax_compute_algo,
            "reduce_amax": wanted.reduce_amax,
        }
        return recipes.DelayedScaling(**{**given, **changes})

    def recipe_of(self, module: Fp8Module) -> object:
        """A scenario may give some modules another recipe."""
        return self.recipe

    @contextlib.contextmanager
    def autocast(self, recipe: object, enabled: bool = True) -> Iterator[None]:
        enabled = enabled and recipe is not None
        with te.fp8_autocast(enabled=enabled, fp8_recipe=recipe):
            yield

    def parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Under their mesh-free names, as declared."""
        found, kind = dict(self.model.named_parameters()), module_of(self.request)
        for name in self.settings.parameters:
            yield name, found[name_in_engine(kind, name)]

    def fp8_modules(self) -> Iterator[tuple[Fp8Module, nn.Module]]:
        for module in modules(self.request):
            yield module, self.model.get_submodule(module.name)

    def init_fp8_metadata(self) -> None:
        """What a module does first in its forward, done alone: state of its size, all fresh."""
        for module, layer in self.fp8_modules():
            with torch.no_grad(), self.autocast(self.recipe_of(module)):
                layer.init_fp8_metadata(module.gemms)

    def _train_on_what_is_told(self, number: int) -> None:
        """The order of a real step: every module's forward, the update on leaving the outermost
        autocast, every module's backward, its update."""
        with contextlib.ExitStack() as outermost:
            for module, layer in self.fp8_modules():
                outermost.enter_context(self.autocast(self.recipe_of(module)))
                layer.init_fp8_metadata(module.gemms)
                if _keeps_history(layer):
                    FP8GlobalStateManager.add_fp8_tensors_to_global_buffer(layer.fp8_meta)
                    self._tell(number, module, layer, backward=False)
        for module, layer in reversed(list(self.fp8_modules())):
            if _keeps_history(layer):
                self._tell(number, module, layer, backward=True)
        FP8GlobalStateManager.reduce_and_update_fp8_tensors(forward=False)
        for name, parameter in self.parameters():
            is_shard = isinstance(parameter, DTensor)
            rows = self.rows(name) if is_shard else range(parameter.shape[0])
            values = self.settings.gradient(name, rows, number)
            local = tensor_of(
                values, (len(rows), *parameter.shape[1:]), parameter.dtype, self.device
            )
            parameter.grad = distributed_as(parameter, local)

    def _tell(self, number: int, module: Fp8Module, layer: nn.Module, backward: bool) -> None:
        """Into row 0 of the history, where a cast to FP8 leaves the amax that it has seen."""
        amaxes = injected_amaxes(
            self.settings, module, number, backward, self.place.rank, self.place.world
        )
        meta = layer.fp8_meta["scaling_bwd" if backward else "scaling_fwd"]
        meta.amax_history[0].copy_(torch.tensor(amaxes, device=meta.amax_history.device))

    def _train_on_samples(self, number: int) -> None:
        settings = self.settings
        self.optimizer.zero_grad()
        total = 0.0
        for batch in batches(self.request, self.place.rank):
            data = self._features(Stream.DATA, number, batch)
            target = self._features(Stream.TARGETS, number, batch)
            with self.autocast(self.recipe):
                result = self.model(data)
            loss = 0.5 * (result.float() - target.float()).square().sum()
            loss.backward()
            total += float(loss.detach())
        if number > settings.save_after:
            self.loss = total

    def _features(self, stream: Stream, number: int, batch: range) -> torch.Tensor:
        values = samples(self.settings, stream, number, batch)
        shape = (len(batch), self.settings.model.width)
        return tensor_of(values, shape, PARAM_DTYPES[self.settings.param_dtype], self.device)

    def _sizes(self) -> tuple[int, int, torch.dtype, torch.device]:
        model = self.settings.model
        return model.width, model.hidden, PARAM_DTYPES[self.settings.param_dtype], self.device


class _Model(nn.Module):
    """Residual blocks."""

    def __init__(
        self,
        kind: str,
        layers: int,
        width: int,
        hidden: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        super().__init__()
        given = {"params_dtype": dtype, "device": device}
        if kind == "layernorm_mlp":
            blocks = [
                te.LayerNormMLP(width, hidden, eps=EPS, activation="srelu", **given)
                for _ in range(layers)
            ]
        else:
            blocks = [_Block(kind, width, hidden, dtype, device) for _ in range(layers)]
        self.layers = nn.ModuleList(blocks)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        for block in self.layers:
            rows = rows + block(rows)
        return rows


class _Block(nn.Module):
    """LayerNorm, Linear, squared ReLU, Linear; the norm in the first Linear or before it."""

    def __init__(
        self, kind: str, width: int, hidden: int, dtype: torch.dtype, device: torch.device
    ) -> None:
        super().__init__()
        given = {"params_dtype": dtype, "device": device}
        if kind == "linear":
            self.norm = nn.LayerNorm(width, eps=EPS, dtype=dtype, device=device)
            self.fc1 = te.Linear(width, hidden, **given)
        else:
            self.fc1 = te.LayerNormLinear(width, hidden, eps=EPS, **given)
        self.fc2 = te.Linear(hidden, width, **given)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        rows = self.norm(rows) if hasattr(self, "norm") else rows
        return self.fc2(torch.relu(self.fc1(rows)).square())


ADAPTER = TransformerEngine


def _keeps_history(layer: nn.Module) -> bool:
    """Recipes other than delayed scaling keep nothing from one step to the next."""
    return isinstance(
        getattr(layer.fp8_meta.get("scaling_fwd"), "amax_history", None), torch.Tensor
    )


def _lacking(request: PhaseRequest) -> str | None:
    """What the installed release has no name for, or says itself that it cannot run here."""
    version = importlib.metadata.version("transformer_engine")
    release = tuple(int(part) for part in version.split(".")[:2])
    kind = request.settings.fp8.recipe
    if request.settings.gradients == "model" and STAND_INS and release < RELEASES_FOR_STEPS:
        return f"transformer_engine {version}: its kernels have no stand-in, only its state runs"
    if request.settings.gradients == "model" and STAND_INS and kind in RECIPES:
        return f"the kernels of recipe {kind} have no stand-in, only its state runs"
    if kind in RECIPES and not hasattr(recipes, RECIPES[kind]):
        return f"transformer_engine {version} has no recipe {RECIPES[kind]}"
    if kind in RECIPES:
        if STAND_INS and kind in FIRST_GPU_OF:
            stand_in.tell_capability(FIRST_GPU_OF[kind])
        available, reason = getattr(FP8GlobalStateManager, ASKED_FOR[kind])()
        if not available:
            return f"transformer_engine {version}: {reason}"
    if wrap_of(request) == "fsdp2" and not hasattr(fsdp, "fully_shard"):
        return f"torch {torch.__version__} has no torch.distributed.fsdp.fully_shard"
    return None
