"""One optimizer step of torch, timed: the other side of the kernels' benchmark.

Run by tools/benchmark in an environment that has torch (and torchao). One thread, fp32 parameters,
as many elements as the kernels' benchmark uses. Prints one JSON object: nanoseconds an element for
each timed step.
"""

from __future__ import annotations

import argparse
import json
import os
import time


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--form", choices=["fused_fp32", "torchao_eager", "torchao_compiled"])
    parser.add_argument(
        "--optimizer", choices=["AdamW8bit", "AdamW4bit", "AdamWFp8"], default="AdamW8bit"
    )
    parser.add_argument("--elements", type=int)
    parser.add_argument("--steps", type=int)
    arguments = parser.parse_args()
    if arguments.form == "torchao_eager":
        os.environ["TORCHDYNAMO_DISABLE"] = "1"
    os.environ.setdefault("MKL_CBWR", "AVX2")

    import torch

    torch.set_num_threads(1)
    parameter = torch.nn.Parameter(torch.full((arguments.elements // 1024, 1024), 0.01))
    if arguments.form == "fused_fp32":
        optimizer: torch.optim.Optimizer = torch.optim.AdamW([parameter], fused=True)
        versions = {"torch": torch.__version__}
    else:
        import torchao.optim

        optimizer = getattr(torchao.optim, arguments.optimizer)([parameter])
        versions = {"torch": torch.__version__, "torchao": torchao.__version__}
    generator = torch.Generator().manual_seed(1)
    parameter.grad = torch.randn(parameter.shape, generator=generator)
    optimizer.step()  # compiles, and creates the state
    nanoseconds = []
    for _ in range(arguments.steps):
        begin = time.perf_counter_ns()
        optimizer.step()
        nanoseconds.append((time.perf_counter_ns() - begin) / parameter.numel())
    print(json.dumps({"form": arguments.form, "versions": versions, "ns_per_element": nanoseconds}))


if __name__ == "__main__":
    main()
