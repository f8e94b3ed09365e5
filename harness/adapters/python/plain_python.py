"""An adapter without a framework: SGD with momentum in fp32, each rank holding its rows, written
with the standard library alone. It is the one to copy for a framework of your own, and what the
harness's own tests run where no framework is installed.

Its checkpoint is one file a rank, each naming the rows it holds, so it loads on any mesh. That is
where such loaders go wrong: they read the file of their own rank number and never notice.
"""

from __future__ import annotations

import array
import json
import math
from pathlib import Path

from harness.adapters.python.adapter import Adapter
from harness.adapters.python.phase_request import PhaseRequest
from harness.adapters.python.state_file import Piece, whole, write_whole

MOMENTUM = 0.9


class PlainPython(Adapter):
    @classmethod
    def supports(cls, request: PhaseRequest) -> str | None:
        if request.settings.optimizer.name != "sgd":
            return f"plain_python trains with sgd, not with {request.settings.optimizer.name}"
        return None if request.settings.param_dtype == "fp32" else "plain_python computes in fp32"

    def build(self) -> None:
        names = self.settings.parameters
        self.lr = self.first_optimizer.lr
        self.count = 0  # steps taken
        self.param = {n: _fp32(self.settings.initial_values(n, self.rows(n))) for n in names}
        self.momentum = {n: _fp32([0.0] * len(self.param[n])) for n in names}

    def step(self, number: int) -> None:
        for name, param in self.param.items():
            gradient = self.settings.gradient(name, self.rows(name), number)
            moment = self.momentum[name]
            for i, g in enumerate(gradient):
                moment[i] = MOMENTUM * moment[i] + float(g)
                param[i] -= self.lr * moment[i]
        self.count += 1

    def save(self, folder: Path) -> None:
        content = {
            "count": self.count,
            "lr": self.lr,
            "rows": {name: [self.rows(name).start, self.rows(name).stop] for name in self.param},
            "param": {name: values.tobytes().hex() for name, values in self.param.items()},
            "momentum": {name: values.tobytes().hex() for name, values in self.momentum.items()},
        }
        write_whole(folder / f"rank{self.place.rank}.json", [json.dumps(content).encode()])

    def load(self, folder: Path) -> None:
        saved = [json.loads(file.read_text()) for file in sorted(folder.glob("rank*.json"))]
        if not saved:
            raise FileNotFoundError(f"{folder}: no rank<k>.json")
        self.count = saved[0]["count"]
        self.lr = saved[0]["lr"]
        for name in self.param:
            self.param[name] = self._gathered(name, "param", saved)
            self.momentum[name] = self._gathered(name, "momentum", saved)

    def state(self) -> tuple[list[Piece], dict[str, bool | int | float | str]]:
        pieces = []
        for name, global_shape in self.settings.parameters.items():
            rows = self.rows(name)
            offsets = (rows.start, *(0 for _ in global_shape[1:]))
            shape = (len(rows), *global_shape[1:])
            if len(rows):
                for part, values in (("param", self.param), ("moment1.values", self.momentum)):
                    data = values[name].tobytes()
                    pieces.append(Piece(name, part, "F32", global_shape, offsets, shape, data))
            pieces.append(whole(name, "step", "F32", (), _fp32([self.count]).tobytes()))
        return pieces, {"lr/0": self.lr}

    def _gathered(self, name: str, what: str, saved: list[dict]) -> array.array:
        """This rank's rows, wherever they were saved."""
        row = math.prod(self.settings.parameters[name][1:])  # elements
        mine = self.rows(name)
        values = array.array("f", bytes(4 * row * len(mine)))
        for file in saved:
            first, last = file["rows"][name]
            theirs = array.array("f", bytes.fromhex(file[what][name]))
            for r in range(max(first, mine.start), min(last, mine.stop)):
                at, source = (r - mine.start) * row, (r - first) * row
                values[at : at + row] = theirs[source : source + row]
        return values


ADAPTER = PlainPython


def _fp32(values) -> array.array:
    return array.array("f", (float(value) for value in values))
