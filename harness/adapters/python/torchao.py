"""torchao's 8-bit AdamW under FSDP2, on CPU ranks through gloo or on GPUs through NCCL, eager.

What torchao keeps of a parameter is decided by each rank's own shard (its size, its block grid),
so the state is told as found on this rank and never normalised. A DTensor carries two dtypes, its
own and its spec's; a load can leave them different (pytorch/ao#3314), which no value shows, so
both are noted after a load.
"""

from __future__ import annotations

import ctypes
import datetime
import math
from pathlib import Path

from harness.adapters.python.adapter import Adapter, set_before_import
from harness.adapters.python.phase_request import Optimizer, PhaseRequest
from harness.adapters.python.state_file import Piece, whole

VARIABLES = set_before_import(
    {
        "TORCHDYNAMO_DISABLE": "1",  # the optimizer's step stays eager
        "TORCHINDUCTOR_COMPILE_THREADS": "1",  # else importing it starts processes and a thread
        "MKL_CBWR": "AVX2",  # else MKL's square root depends on the machine
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }
)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
import torchao.optim  # noqa: E402
from torch import nn  # noqa: E402
from torch.distributed.checkpoint import state_dict as dcp_state  # noqa: E402
from torch.distributed.device_mesh import DeviceMesh  # noqa: E402
from torch.distributed.fsdp import fully_shard  # noqa: E402
from torch.distributed.tensor import DTensor  # noqa: E402
from torch.distributed.tensor._utils import (  # noqa: E402
    compute_local_shape_and_global_offset,
)

torch.set_num_threads(1)
torch.use_deterministic_algorithms(True)

PARAM_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
NAME_OF = {torch.float32: "F32", torch.bfloat16: "BF16", torch.uint8: "U8", torch.int64: "I64"}
PART_OF = {"exp_avg": "moment1", "exp_avg_sq": "moment2"}
COLLECTIVE_LIMIT = datetime.timedelta(seconds=600)  # beyond any phase's own limit


class Torchao(Adapter):
    variables = VARIABLES
    packages = ("torch", "torchao")
    model: nn.Module
    optimizer: torch.optim.Optimizer

    @classmethod
    def supports(cls, request: PhaseRequest) -> str | None:
        settings = request.settings
        if settings.optimizer.name != "adamw8bit":
            return f"torchao adapter: no optimizer {settings.optimizer.name} yet"
        if settings.optimizer.block != 256 or settings.optimizer.min_quantised_elements != 4096:
            return "torchao quantises in blocks of 256 from 4096 elements on; neither can be set"
        if request.options.get("wrap", "fsdp2") == "none" and request.world > 1:
            return "wrap = none is for one rank: plain tensors have no shards"
        if settings.save_format != "dcp" and request.mesh != request.save_mesh:
            return f"{settings.save_format} checkpoints load on the mesh that saved them only"
        if request.device == "cuda" and torch.cuda.device_count() < request.world:
            return f"{request.world} ranks need as many GPUs; {torch.cuda.device_count()} found"
        return None

    def build(self) -> None:
        place = self.place
        self.device = torch.device("cpu")
        if self.request.device == "cuda":
            self.device = torch.device("cuda", place.local_rank)
            torch.cuda.set_device(self.device)
        dist.init_process_group(
            "nccl" if self.device.type == "cuda" else "gloo",
            store=dist.FileStore(str(place.meeting_point), place.world),
            rank=place.rank,
            world_size=place.world,
            timeout=COLLECTIVE_LIMIT,
        )
        self.mesh = self._device_mesh()
        self.model, self.optimizer = self._fresh(self.settings.init_seed, self.first_optimizer)

    def step(self, number: int) -> None:
        self._step(self.model, self.optimizer, number)

    def save(self, folder: Path) -> None:
        if self.settings.save_format == "dcp":
            dcp.save(self._state_dicts(), checkpoint_id=folder)
        elif self.settings.save_format == "torch_save":
            torch.save(_own_state_dicts(self.model, self.optimizer), self._rank_file(folder))
        else:
            _own_state_dicts(self.model, self.optimizer)

    def load(self, folder: Path) -> None:
        if self.settings.save_format == "dcp":
            state = self._state_dicts()
            dcp.load(state, checkpoint_id=folder)
            dcp_state.set_model_state_dict(self.model, state["model"])
            dcp_state.set_optimizer_state_dict(self.model, self.optimizer, state["optimizer"])
        else:
            state = (
                torch.load(self._rank_file(folder))
                if self.settings.save_format == "torch_save"
                else self._trained_in_memory()
            )
            self.model.load_state_dict(state["model"])
            self.optimizer.load_state_dict(state["optimizer"])
        self._note_dtypes()

    def state(self) -> tuple[list[Piece], dict[str, bool | int | float | str]]:
        pieces = []
        for name, parameter in self.model.named_parameters():
            pieces += self._sharded(name, "param", parameter.detach(), parameter)
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if key in PART_OF:
                    pieces += self._moment(name, PART_OF[key], value, parameter)
                else:
                    local = _local(value)
                    pieces.append(
                        whole(name, key, NAME_OF[local.dtype], local.shape, _bytes(local))
                    )
        groups = self.optimizer.param_groups
        return pieces, {f"lr/{i}": float(group["lr"]) for i, group in enumerate(groups)}

    def close(self) -> None:
        dist.destroy_process_group()

    def _device_mesh(self) -> DeviceMesh:
        """dp4 is one dim of shards; rep2dp2 is FSDP2's hybrid: replicas of shards."""
        names = [name for name, _ in self.request.dims]
        ranks = torch.arange(self.place.world).reshape([size for _, size in self.request.dims])
        if "rep" in names:
            if "dp" not in names:
                names, ranks = [*names, "dp"], ranks.unsqueeze(-1)
            ranks = ranks.permute(names.index("rep"), names.index("dp"))
            names = ["rep", "dp"]
        return DeviceMesh(self.device.type, ranks.contiguous(), mesh_dim_names=tuple(names))

    def _fresh(self, seed: int, given: Optimizer) -> tuple[nn.Module, torch.optim.Optimizer]:
        settings = self.settings
        model = nn.Module()
        for name, shape in settings.parameters.items():
            values = settings.initial_values(name, range(shape[0]), seed)
            _register(model, name, nn.Parameter(self._tensor(values, shape)))
        if self.request.options.get("wrap", "fsdp2") == "fsdp2":
            fully_shard(model, mesh=self.mesh)
        optimizer = torchao.optim.AdamW8bit(
            model.parameters(),
            lr=given.lr,
            betas=given.betas,
            eps=given.eps,
            weight_decay=given.weight_decay,
        )
        return model, optimizer

    def _step(self, model: nn.Module, optimizer: torch.optim.Optimizer, number: int) -> None:
        for name, parameter in model.named_parameters():
            rows = self.rows(name)
            local = self._tensor(
                self.settings.gradient(name, rows, number), (len(rows), *parameter.shape[1:])
            )
            parameter.grad = _like(parameter, local)
        optimizer.step()

    def _tensor(self, values, shape: tuple[int, ...]) -> torch.Tensor:
        """Grid values as a tensor of the parameters' dtype, rounded to nearest even."""
        tensor = torch.frombuffer(values, dtype=torch.float32) if len(values) else torch.empty(0)
        return tensor.reshape(shape).to(self.device, PARAM_DTYPES[self.settings.param_dtype])

    def _state_dicts(self) -> dict[str, dict]:
        return {
            "model": dcp_state.get_model_state_dict(self.model),
            "optimizer": dcp_state.get_optimizer_state_dict(self.model, self.optimizer),
        }

    def _trained_in_memory(self) -> dict[str, dict]:
        """The run to save_after once more in this process: its state dicts, still its own."""
        model, optimizer = self._fresh(self.settings.seed, self.settings.optimizer)
        for number in range(1, self.settings.save_after + 1):
            self._step(model, optimizer, number)
        return _own_state_dicts(model, optimizer)

    def _rank_file(self, folder: Path) -> Path:
        return folder / f"rank{self.place.rank}.pt"

    def _note_dtypes(self) -> None:
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimizer.state.get(parameter, {}).items():
                if key in PART_OF and isinstance(value, DTensor):
                    self.notes.append(
                        f"{PART_OF[key]} of {name}: DTensor dtype {value.dtype}, "
                        f"spec dtype {value._spec.tensor_meta.dtype}"
                    )

    def _moment(self, name: str, part: str, value, parameter) -> list[Piece]:
        """Quantised or plain, as this rank's shard has it."""
        local = _local(value)
        if not hasattr(local, "codes"):
            return self._sharded(name, f"{part}.values", value, parameter)
        block = local.block_size
        offset = _offsets(parameter)[0] * math.prod(parameter.shape[1:])  # elements
        if offset % block:
            self.notes.append(f"{part} of {name}: the shard starts inside a block of {block}")
        blocks = -(-parameter.numel() // block)
        scale, codebook = local.scale, local.qmap
        return [
            *self._sharded(name, f"{part}.codes", local.codes, parameter, block),
            Piece(
                name,
                f"{part}.scale",
                NAME_OF[scale.dtype],
                (blocks,),
                (offset // block,),
                tuple(scale.shape),
                _bytes(scale),
                block,
            ),
            whole(
                name, f"{part}.codebook", NAME_OF[codebook.dtype], codebook.shape, _bytes(codebook)
            ),
        ]

    def _sharded(self, name: str, part: str, value, parameter, block: int = 0) -> list[Piece]:
        """One box of a tensor that is cut as the parameter is; none where the shard is empty."""
        local = _local(value)
        if local.numel() == 0:
            return []
        shape, offsets = tuple(parameter.shape), _offsets(parameter)
        dtype = NAME_OF[local.dtype]
        return [Piece(name, part, dtype, shape, offsets, tuple(local.shape), _bytes(local), block)]


ADAPTER = Torchao


def _own_state_dicts(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, dict]:
    return {"model": model.state_dict(), "optimizer": optimizer.state_dict()}


def _register(model: nn.Module, name: str, parameter: nn.Parameter) -> None:
    """Nested modules, so that named_parameters gives exactly this FQN."""
    *path, leaf = name.split(".")
    for part in path:
        if part not in dict(model.named_children()):
            model.add_module(part, nn.Module())
        model = model.get_submodule(part)
    model.register_parameter(leaf, parameter)


def _offsets(parameter) -> tuple[int, ...]:
    if not isinstance(parameter, DTensor):
        return (0,) * parameter.dim()
    _, offsets = compute_local_shape_and_global_offset(
        parameter.shape, parameter.device_mesh, parameter.placements
    )
    return tuple(offsets)


def _like(parameter, local: torch.Tensor) -> torch.Tensor:
    """This rank's shard as a tensor distributed as the parameter is."""
    if not isinstance(parameter, DTensor):
        return local
    return DTensor.from_local(
        local,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )


def _local(value) -> torch.Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def _bytes(tensor: torch.Tensor) -> bytes:
    tensor = tensor.detach().contiguous().cpu()
    return ctypes.string_at(tensor.data_ptr(), tensor.numel() * tensor.element_size())
