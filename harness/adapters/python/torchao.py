"""torchao's low-bit AdamW under FSDP2, on CPU ranks through gloo or on GPUs through NCCL, eager or
compiled as the profile says.

What torchao keeps of a parameter is decided by each rank's own shard (its size, its block grid),
so the state is told as found on this rank (torchao_state.py). Whether a step is compiled must be
decided at run time: a variable read at import would decide it for every phase of a rank server.
"""

from __future__ import annotations

import hashlib
import inspect
import os
from pathlib import Path

from harness.adapters.python.adapter import Adapter, set_before_import
from harness.adapters.python.phase_request import Optimizer, PhaseRequest
from harness.adapters.python.state_file import Piece
from harness.adapters.python.torchao_settings import (
    CLASS_OF,
    OPTIONS_OF,
    is_compiled,
    not_as_asked,
    why_not,
    wrap_of,
)

VARIABLES = set_before_import(
    {
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # else compiling starts processes and a thread
        "MKL_CBWR": "AVX2",  # else MKL's square root depends on the machine
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torchao.optim  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed import fsdp  # noqa: E402
from torch.distributed.checkpoint.state_dict import StateDictOptions  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402

from harness.adapters.python import torchao_checkpoint, torchao_state  # noqa: E402
from harness.adapters.python.torch_ranks import (  # noqa: E402
    PARAM_DTYPES,
    device_mesh,
    distributed_as,
    join,
    tensor_of,
    too_few_gpus,
)

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)


class Torchao(Adapter):
    variables = VARIABLES
    packages = ("torch", "torchao")
    model: nn.Module
    optimizer: torch.optim.Optimizer
    source: tuple[nn.Module, torch.optim.Optimizer]  # of a load inside the process

    @classmethod
    def supports(cls, request: PhaseRequest) -> str | None:
        reason = why_not(request) or _lacking(request, cls.versions())
        return reason or too_few_gpus(request)

    def build(self) -> None:
        place = self.place
        self.device = join(self.request, place)
        self.mesh = device_mesh(self.request, self.device)
        # Phases and ranks of one kind of run share a cache, as a job's do. Those of another do not:
        # torch 2.15.0 takes a graph that was compiled for 8-bit states for 4-bit and FP8 ones.
        kind = repr((self.settings.optimizer, self.settings.param_dtype, self.settings.parameters))
        folder = hashlib.sha256(kind.encode()).hexdigest()[:12]
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(place.temporary / "compiled" / folder)
        self._choose_compiled(1 if self.request.saves else self.settings.save_after + 1)
        self.draws = self.settings.optimizer.stochastic_rounding
        torch.manual_seed(self.settings.init_seed)
        self.model, self.optimizer = self.fresh(self.settings.init_seed, self.first_optimizer)

    def step(self, number: int) -> None:
        self.train(self.model, self.optimizer, number)

    def save(self, folder: Path) -> None:
        torchao_checkpoint.save(self, folder)

    def load(self, folder: Path) -> None:
        torchao_checkpoint.load(self, folder)
        for name, parameter in self.model.named_parameters():
            state = self.optimizer.state.get(parameter, {})
            self.notes += torchao_state.notes_of(name, parameter, state)

    def state(self) -> tuple[list[Piece], dict[str, bool | int | float | str]]:
        pieces = []
        for name, parameter in self.model.named_parameters():
            state = self.optimizer.state.get(parameter, {})
            pieces += torchao_state.pieces_of(name, parameter, state)
        groups = self.optimizer.param_groups
        values = {f"lr/{i}": float(group["lr"]) for i, group in enumerate(groups)}
        if self.draws:
            values[f"rng/rank{self.place.rank}"] = torchao_state.generator_digest()
        return pieces, values

    def close(self) -> None:
        self.notes.append(f"graphs compiled in this phase: {_graphs_compiled()}")
        dist.destroy_process_group()

    def fresh(self, seed: int, given: Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        """A model with its optimizer, which is given the parameters in declared order: modules
        order them by submodule, and where rounding is stochastic the order decides who draws."""
        settings = self.settings
        model = nn.Module()
        for name, shape in settings.parameters.items():
            values = settings.initial_values(name, range(shape[0]), seed)
            _register(model, name, nn.Parameter(self._tensor(values, shape)))
        self._wrap(model)
        return model, self.optimizer_for(model, given)

    def optimizer_for(self, model: nn.Module, given: Optimizer) -> torch.optim.Optimizer:
        parameters = dict(model.named_parameters())
        options = {} if given.name == "adamw" else {"block_size": given.block}
        return getattr(torchao.optim, CLASS_OF[given.name])(
            [parameters[name] for name in self.settings.parameters],
            lr=given.lr,
            betas=given.betas,
            eps=given.eps,
            weight_decay=given.weight_decay,
            bf16_stochastic_round=given.stochastic_rounding,
            **options,
        )

    def trained_in_memory(self) -> tuple[nn.Module, torch.optim.Optimizer]:
        """The run to save_after once more in this process, where its state can be loaded from."""
        torch.manual_seed(self.settings.seed)
        model, optimizer = self.fresh(self.settings.seed, self.settings.optimizer)
        for number in range(1, self.settings.save_after + 1):
            self.train(model, optimizer, number)
        return model, optimizer

    def train(self, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
        """One step of this run or of the one that it loads from."""
        self._choose_compiled(number)
        for name, parameter in model.named_parameters():
            is_shard = isinstance(parameter, DTensor)
            rows = self.rows(name) if is_shard else range(parameter.shape[0])
            local = self._tensor(
                self.settings.gradient(name, rows, number), (len(rows), *parameter.shape[1:])
            )
            parameter.grad = distributed_as(parameter, local)
        before = _graphs_compiled()
        optimizer.step()
        problem = not_as_asked(is_compiled(self.settings, number), before, _graphs_compiled())
        if problem:
            raise RuntimeError(f"step {number} {problem}")

    def _wrap(self, model: nn.Module) -> None:
        wrap = wrap_of(self.request)
        if wrap == "fsdp2":
            fsdp.fully_shard(model, mesh=self.mesh)
        elif wrap == "fsdp2_matrices":
            plain = {parameter for parameter in model.parameters() if parameter.dim() < 2}
            fsdp.fully_shard(model, mesh=self.mesh, ignored_params=plain)
        elif wrap == "fsdp2_cpu_offload":
            policy = fsdp.CPUOffloadPolicy(pin_memory=False)
            fsdp.fully_shard(model, mesh=self.mesh, offload_policy=policy)

    def _choose_compiled(self, step: int) -> None:
        """torch reads this variable anew for each torch.compile, and torchao calls that in each
        step. torch._dynamo.config.disable is another matter: torch 2.15 refuses it."""
        os.environ["TORCHDYNAMO_DISABLE"] = "0" if is_compiled(self.settings, step) else "1"

    def _tensor(self, values, shape: tuple[int, ...]) -> torch.Tensor:
        """Grid values as a tensor of the parameters' dtype, rounded to nearest even."""
        return tensor_of(values, shape, PARAM_DTYPES[self.settings.param_dtype], self.device)


ADAPTER = Torchao


def _lacking(request: PhaseRequest, versions: dict[str, str]) -> str | None:
    """What the installed versions have no name for."""
    settings = request.settings
    wanted = CLASS_OF[settings.optimizer.name]
    if not hasattr(torchao.optim, wanted):
        return f"torchao {versions['torchao']} has no {wanted}"
    parameters = inspect.signature(getattr(torchao.optim, wanted)).parameters
    if settings.optimizer.stochastic_rounding and "bf16_stochastic_round" not in parameters:
        return f"torchao {versions['torchao']}: {wanted} has no bf16_stochastic_round"
    for option in OPTIONS_OF.get(settings.save_format, {}):
        if option not in inspect.signature(StateDictOptions).parameters:
            return f"torch {versions['torch']}: StateDictOptions has no {option}"
    wrap = wrap_of(request)
    if wrap != "none" and not hasattr(fsdp, "fully_shard"):
        return f"torch {versions['torch']} has no torch.distributed.fsdp.fully_shard"
    if wrap == "fsdp2_matrices" and not _takes_ignored_parameters():
        return f"torch {versions['torch']}: fully_shard has no ignored_params"
    if wrap == "fsdp2_cpu_offload" and not hasattr(fsdp, "CPUOffloadPolicy"):
        return f"torch {versions['torch']} has no torch.distributed.fsdp.CPUOffloadPolicy"
    return None


def _graphs_compiled() -> int:
    """By this process. A step that is compiled already counts none; a disabled compiler never."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def _takes_ignored_parameters() -> bool:
    return "ignored_params" in inspect.signature(fsdp.fully_shard).parameters


def _register(model: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Nested modules, so that named_parameters gives exactly this FQN."""
    *path, leaf = name.split(".")
    for part in path:
        if part not in dict(model.named_children()):
            model.add_module(part, nn.Module())
        model = model.get_submodule(part)
    model.register_parameter(leaf, parameter)
