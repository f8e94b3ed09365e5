"""How users of Transformer Engine save and load a run: a distributed checkpoint, torch.save, or
the extra states alone; and what they try before the load, as the report's workarounds do. None
repairs or catches anything: what a way of loading loses is what the cases are about.

The extra states alone go through the decoder first, as whoever is handed such a file should do:
bytes that are no extra state of such a module never reach the module's own unpickling.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint import state_dict as dcp_state

from harness.adapters.python import extra_state
from harness.adapters.python.transformer_engine_settings import option

if TYPE_CHECKING:
    from harness.adapters.python.transformer_engine import TransformerEngine

KEY = "_extra_state"


def save(run: TransformerEngine, folder: Path) -> None:
    for module, layer in run.fp8_modules():
        state = content_of(layer.get_extra_state())
        run.notes.append(extra_state.described(module.name, state))
    way = run.settings.save_format
    if way == "dcp":
        dcp.save(_gathered(run), checkpoint_id=folder)
    elif way == "torch_save":
        content = {"model": run.model.state_dict(), "optimizer": run.optimizer.state_dict()}
        torch.save(content, _rank_file(run, folder))
    elif run.place.rank == 0:
        states = {module.name: layer.get_extra_state() for module, layer in run.fp8_modules()}
        torch.save(states, folder / "extra_states.pt")


def load(run: TransformerEngine, folder: Path) -> None:
    before = option(run.request, "before_load", "fresh")
    if before == "init_fp8_metadata":
        run.init_fp8_metadata()
    way = run.settings.save_format
    if way == "dcp":
        _load_gathered(run, folder, before)
    elif way == "torch_save":
        content = torch.load(_rank_file(run, folder), weights_only=False)
        _set_model(run, _wanted(content["model"], before), before)
        run.optimizer.load_state_dict(content["optimizer"])
    else:
        load_extra_states(run, folder / "extra_states.pt")


def load_extra_states(run: TransformerEngine, file: Path) -> None:
    # Up to 1.13 a state is a BytesIO; nothing else of the file is ever executed.
    with torch.serialization.safe_globals([io.BytesIO]):
        states = torch.load(file, weights_only=True)
    for module, layer in run.fp8_modules():
        state = states[module.name]
        fields = extra_state.decode(module.name, content_of(state))
        extra_state.require(module.name, fields, module.gemms, run.settings.fp8.amax_history_len)
        layer.set_extra_state(state)


def content_of(state: object) -> bytes | None:
    """The bytes of what get_extra_state gave: a uint8 tensor, or a BytesIO up to 1.13."""
    if isinstance(state, io.BytesIO):
        return state.getvalue()
    return None if state is None else bytes(state.cpu().numpy().tobytes())


def _load_gathered(run: TransformerEngine, folder: Path, before: str) -> None:
    state = _gathered(run)
    state["model"] = model = _wanted(state["model"], before)
    if before == "placeholder":
        saved = dcp.FileSystemReader(folder).read_metadata().state_dict_metadata
        for key in model:
            if key.endswith(KEY):
                model[key] = torch.empty(saved[f"model.{key}"].size, dtype=torch.uint8)
    dcp.load(state, checkpoint_id=folder)
    _set_model(run, model, before)
    dcp_state.set_optimizer_state_dict(run.model, run.optimizer, state["optimizer"])


def _wanted(model: dict[str, object], before: str) -> dict[str, object]:
    """What the load asks for: without the extra states where the scenario leaves their keys out."""
    if before != "left_out":
        return model
    return {key: value for key, value in model.items() if not key.endswith(KEY)}


def _set_model(run: TransformerEngine, model: dict[str, object], before: str) -> None:
    run.model.load_state_dict(model, strict=before != "left_out")


def _gathered(run: TransformerEngine) -> dict[str, dict]:
    """On a fresh optimizer this takes a step, to have something to load into."""
    return {
        "optimizer": dcp_state.get_optimizer_state_dict(run.model, run.optimizer),
        "model": run.model.state_dict(),
    }


def _rank_file(run: TransformerEngine, folder: Path) -> Path:
    return folder / f"rank{run.place.rank}.pt"
