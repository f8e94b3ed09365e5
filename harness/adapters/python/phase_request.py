"""What one rank is told about one phase: the file that harness/phases/phase_request.h describes.

Everything an adapter computes with comes from here, so that two frameworks told the same thing
train the same parameters on the same gradients. A missing key is an error, never a default: two
sides that default differently would compare two different runs.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

from harness.adapters.python import philox

SCHEMA = 1
WEIGHT_EXPONENT = -14
GRADIENT_EXPONENT = -12


@dataclasses.dataclass(frozen=True)
class Fault:
    """name: of a rank fault or of a defect. rank: None is every rank. at: a phase part."""

    name: str
    rank: int | None
    at: str


@dataclasses.dataclass(frozen=True)
class Optimizer:
    name: str
    profile: str
    profile_after_save: str  # "": the same; in both runs, from the step after the save on
    lr: float
    betas: tuple[float, float]
    eps: float
    weight_decay: float
    block: int  # elements
    min_quantised_elements: int
    stochastic_rounding: bool  # of bf16 parameters
    groups: list[dict]  # {"parameters": patterns, "lr": .., "weight_decay": ..}
    schedule: str  # "" | linear_warmup
    schedule_steps: int
    clip_norm: float  # 0: none

    def another(self) -> Optimizer:
        """The same optimizer with other hyperparameters, all of which change the next step."""
        return dataclasses.replace(
            self,
            lr=2 * self.lr,
            betas=tuple(beta / 2 for beta in self.betas),
            eps=2 * self.eps,
            weight_decay=2 * self.weight_decay + 0.5,
        )


@dataclasses.dataclass(frozen=True)
class Model:
    kind: str  # "": names and shapes as given | layernorm_mlp
    layers: int
    width: int
    hidden: int
    tied: bool  # all layers share layers.0.fc1.weight
    experts: int  # 0: none
    dropout: float
    frozen: list[str]  # patterns of parameters without gradients ...
    frozen_from: int  # ... in these steps
    frozen_until: int  # 0: to the end


@dataclasses.dataclass(frozen=True)
class Fp8:
    recipe: str  # "": none | delayed | current | block | mxfp8
    amax_history_len: int
    amax_compute_algo: str  # max | most_recent
    margin: int
    format: str  # hybrid | e4m3
    update: str  # fused | unfused
    reduce_amax: bool  # over all ranks


@dataclasses.dataclass(frozen=True)
class LossScale:
    initial: float  # 0: none
    growth_interval: int  # steps
    largest: float  # of a scaled gradient


@dataclasses.dataclass(frozen=True)
class Settings:
    """parameters: FQN -> global shape, in the order they are declared. param_dtype: fp32 | bf16.
    gradients: order_free (injected) | model (of its 24 samples). accumulate: micro-batches a step.
    save_after, train_until: steps, 1-based."""

    seed: int
    init_seed: int
    parameters: dict[str, tuple[int, ...]]
    param_dtype: str
    master_dtype: str  # "" | "fp32"
    model: Model
    fp8: Fp8
    optimizer: Optimizer
    loss_scale: LossScale
    gradients: str
    data: str  # by_step | stream
    accumulate: int
    save_after: int
    train_until: int
    resumes: int  # in a row
    save_format: str

    def ordinal(self, name: str) -> int:
        """The parameter's place in bytewise FQN order: what the random streams are keyed by."""
        return sorted(self.parameters, key=str.encode).index(name)

    def initial_values(self, name: str, rows: range, seed: int | None = None):
        """fp32 weights of `rows` of a parameter, flattened; round them to param_dtype. In a model
        that computes, biases begin at 0 and the weights of a norm at 1."""
        if self.model.kind and name.endswith((".bias", ".norm.weight")):
            return philox.filled(0.0 if name.endswith(".bias") else 1.0, len(rows))
        seed = self.init_seed if seed is None else seed
        return self._grid(philox.Stream.INIT, seed, name, rows, 0, WEIGHT_EXPONENT)

    def gradient(self, name: str, rows: range, step: int):
        """fp32 gradient of `rows` of a parameter at a step (1-based), flattened; round it too."""
        return self._grid(philox.Stream.GRADIENTS, self.seed, name, rows, step, GRADIENT_EXPONENT)

    def _grid(
        self, stream: philox.Stream, seed: int, name: str, rows: range, step: int, exponent: int
    ):
        row = math.prod(self.parameters[name][1:])  # elements
        first, count = rows.start * row, len(rows) * row
        return philox.grid_values(seed, stream, self.ordinal(name), step, first, count, exponent)


@dataclasses.dataclass(frozen=True)
class PhaseRequest:
    phase: str  # "save_run" | "resume_run"
    case: str
    adapter: str
    options: dict[str, bool | int | float | str]
    mesh: str  # "rep2dp2"
    dims: tuple[tuple[str, int], ...]  # (("rep", 2), ("dp", 2)): the first varies slowest
    device: str  # "cpu" | "cuda"
    settings: Settings
    save_mesh: str
    checkpoint: Path
    next_checkpoint: Path | None  # of a resume that another follows: saved at its end
    states: Path
    records: Path
    scenario_file: Path | None
    faults: tuple[Fault, ...]
    limit_s: float

    @property
    def saves(self) -> bool:
        return self.phase == "save_run"

    @property
    def world(self) -> int:
        return math.prod(size for _, size in self.dims)

    def size_of(self, dim: str) -> int:
        """1 where the mesh has no such dim."""
        return dict(self.dims).get(dim, 1)

    def coordinates(self, rank: int) -> dict[str, int]:
        """Where a rank sits: {"rep": 1, "dp": 0}."""
        found = {}
        for name, size in reversed(self.dims):
            rank, found[name] = divmod(rank, size)
        return {name: found[name] for name, _ in self.dims}


def chunk(rows: int, count: int, index: int) -> range:
    """The rows of shard `index` of `count`, as torch.chunk splits: ceil(rows / count) each, the
    last ones shorter or empty."""
    each = -(-rows // count)
    return range(min(index * each, rows), min((index + 1) * each, rows))


def read_phase_request(file: Path) -> PhaseRequest:
    """Raises ValueError naming the file and the key."""
    try:
        content = json.loads(file.read_text())
        if content["schema"] != SCHEMA:
            raise ValueError(f"schema {content['schema']}, expected {SCHEMA}")
        return _request(content)
    except (KeyError, TypeError, ValueError) as problem:
        raise ValueError(f"{file}: no phase request: {problem!r}") from problem


def _request(content: dict) -> PhaseRequest:
    scenario_file, next_checkpoint = content["scenario_file"], content["next_checkpoint"]
    return PhaseRequest(
        phase=content["phase"],
        case=content["case"],
        adapter=content["adapter"],
        options=content["options"],
        mesh=content["mesh"],
        dims=tuple((name, size) for name, size in content["dims"]),
        device=content["device"],
        settings=_settings(content["settings"]),
        save_mesh=content["save_mesh"],
        checkpoint=Path(content["checkpoint"]),
        next_checkpoint=Path(next_checkpoint) if next_checkpoint else None,
        states=Path(content["states"]),
        records=Path(content["records"]),
        scenario_file=Path(scenario_file) if scenario_file else None,
        faults=tuple(Fault(f["name"], f["rank"], f["at"]) for f in content["faults"]),
        limit_s=content["limit_s"],
    )


def _settings(content: dict) -> Settings:
    optimizer = dict(content["optimizer"])
    optimizer["betas"] = tuple(optimizer["betas"])
    return Settings(
        seed=content["seed"],
        init_seed=content["init_seed"],
        parameters={name: tuple(shape) for name, shape in content["parameters"].items()},
        param_dtype=content["param_dtype"],
        master_dtype=content["master_dtype"],
        model=Model(**content["model"]),
        fp8=Fp8(**content["fp8"]),
        optimizer=Optimizer(**optimizer),
        loss_scale=LossScale(**content["loss_scale"]),
        gradients=content["gradients"],
        data=content["data"],
        accumulate=content["accumulate"],
        save_after=content["save_after"],
        train_until=content["train_until"],
        resumes=content["resumes"],
        save_format=content["save_format"],
    )
