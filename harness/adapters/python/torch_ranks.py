"""What every adapter of a torch framework does alike: the device and the process group of a rank,
the device mesh, a shard as the tensor that the framework would hold. Two adapters that did these
in ways of their own could train two runs from one request, and each would agree with itself.

This module imports torch: set what torch reads while it is imported above the import of this one.
"""

from __future__ import annotations

import datetime

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

from harness.adapters.python.adapter import Place
from harness.adapters.python.phase_request import PhaseRequest

PARAM_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}
COLLECTIVE_LIMIT = datetime.timedelta(seconds=600)  # beyond any phase's own limit


def too_few_gpus(request: PhaseRequest) -> str | None:
    if request.device != "cuda" or torch.cuda.device_count() >= request.world:
        return None
    return f"{request.world} ranks need as many GPUs; {torch.cuda.device_count()} found"


def join(request: PhaseRequest, place: Place) -> torch.device:
    """Meets the other ranks, through gloo or on GPUs through NCCL; this rank's device."""
    device = torch.device("cpu")
    if request.device == "cuda":
        device = torch.device("cuda", place.local_rank)
        torch.cuda.set_device(device)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        store=dist.FileStore(str(place.meeting_point), place.world),
        rank=place.rank,
        world_size=place.world,
        timeout=COLLECTIVE_LIMIT,
    )
    return device


def device_mesh(request: PhaseRequest, device: torch.device) -> DeviceMesh:
    """dp4 is one dim of shards; rep2dp2 is FSDP2's hybrid: replicas of shards."""
    names = [name for name, _ in request.dims]
    ranks = torch.arange(request.world).reshape([size for _, size in request.dims])
    if "rep" in names:
        if "dp" not in names:
            names, ranks = [*names, "dp"], ranks.unsqueeze(-1)
        ranks = ranks.permute(names.index("rep"), names.index("dp"))
        names = ["rep", "dp"]
    return DeviceMesh(device.type, ranks.contiguous(), mesh_dim_names=tuple(names))


def tensor_of(
    values, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> torch.Tensor:
    """Grid values (a buffer of fp32, empty on a rank without rows) rounded to nearest even."""
    tensor = torch.frombuffer(values, dtype=torch.float32) if len(values) else torch.empty(0)
    return tensor.reshape(shape).to(device, dtype)


def distributed_as(parameter: torch.Tensor, local: torch.Tensor) -> torch.Tensor:
    """This rank's shard as a tensor distributed as the parameter is, and where it is."""
    if not isinstance(parameter, DTensor):
        return local
    gradient = DTensor.from_local(
        local,
        parameter.device_mesh,
        parameter.placements,
        run_check=False,
        shape=parameter.shape,
        stride=parameter.stride(),
    )
    return gradient.to(parameter.device)
