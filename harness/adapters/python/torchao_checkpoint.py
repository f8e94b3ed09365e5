"""The ways in which torchao's users save and load a run, each as they do it. None repairs, casts or
catches anything: what a way of saving loses or cannot do is what the cases are about.

Where rounding is stochastic, the generator is state: each rank saves its own, under a key of its
own, since a distributed checkpoint keeps one copy of whatever ranks store under the same key.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint import state_dict as dcp_state
from torch.distributed.checkpoint.state_dict import StateDictOptions

from harness.adapters.python.torchao_settings import OPTIONS_OF, OWN_STATE_DICTS

if TYPE_CHECKING:
    from harness.adapters.python.torchao import Torchao


def save(run: Torchao, folder: Path) -> None:
    way = run.settings.save_format
    if way == "torch_save":
        torch.save(_own_state_dicts(run.model, run.optimizer, run.draws), _rank_file(run, folder))
    elif way == "full":
        state = _gathered_state_dicts(run)
        if run.place.rank == 0:
            torch.save(state, folder / "full.pt")
        if run.draws:
            torch.save(torch.get_rng_state(), _rank_file(run, folder))
    elif way in OPTIONS_OF:
        state = _gathered_state_dicts(run)
        if run.draws:
            state["generator"] = {f"rank{run.place.rank}": torch.get_rng_state()}
        dcp.save(state, checkpoint_id=folder)
    else:
        _own_state_dicts(run.model, run.optimizer, run.draws)


def load(run: Torchao, folder: Path) -> None:
    if run.settings.save_format in OWN_STATE_DICTS:
        _load_own(run, folder)
    else:
        _load_gathered(run, folder)


def _own_state_dicts(
    model: nn.Module, optimizer: torch.optim.Optimizer, draws: bool
) -> dict[str, object]:
    """As a rank of a script without a distributed checkpoint has them: live, nothing copied."""
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    return {**state, "generator": torch.get_rng_state()} if draws else state


def _load_own(run: Torchao, folder: Path) -> None:
    if run.settings.save_format == "state_dict":
        run.source = run.trained_in_memory()
        state = _own_state_dicts(*run.source, run.draws)
    else:
        state = torch.load(_rank_file(run, folder))
    run.model.load_state_dict(state["model"])
    run.optimizer.load_state_dict(state["optimizer"])
    if run.draws:
        torch.set_rng_state(state["generator"])


def _load_gathered(run: Torchao, folder: Path) -> None:
    if run.settings.save_format == "full":
        state = torch.load(folder / "full.pt", map_location="cpu")
        generator = torch.load(_rank_file(run, folder)) if run.draws else None
    else:
        state = _gathered_state_dicts(run)
        mine = f"rank{run.place.rank}"
        if run.draws:
            state["generator"] = {mine: torch.get_rng_state()}
        dcp.load(state, checkpoint_id=folder)
        generator = state["generator"][mine] if run.draws else None
    options = _options(run)
    dcp_state.set_model_state_dict(run.model, state["model"], options=options)
    dcp_state.set_optimizer_state_dict(
        run.model, run.optimizer, state["optimizer"], options=options
    )
    if generator is not None:
        torch.set_rng_state(generator)


def _gathered_state_dicts(run: Torchao) -> dict[str, dict]:
    """On a fresh optimizer this takes a step, to have something to load into."""
    options = _options(run)
    return {
        "model": dcp_state.get_model_state_dict(run.model, options=options),
        "optimizer": dcp_state.get_optimizer_state_dict(run.model, run.optimizer, options=options),
    }


def _options(run: Torchao) -> StateDictOptions:
    return StateDictOptions(**OPTIONS_OF[run.settings.save_format])


def _rank_file(run: Torchao, folder: Path) -> Path:
    return folder / f"rank{run.place.rank}.pt"
