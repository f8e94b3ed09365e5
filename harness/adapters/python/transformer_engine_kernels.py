"""The kernels of transformer_engine_torch that a delayed-scaling step of te.Linear,
LayerNormLinear and LayerNormMLP calls, emulated with torch on the CPU: casts, transposes, GEMMs of
FP8 operands, layer norm, squared ReLU and the fused scale update.

They are deterministic and follow the same rules (saturating casts, amax into row 0 of the history,
products of exact FP8 values in fp32), but sum in another order than a GPU does: a resumed run can
be compared with its own continuation, never with numbers of a GPU. Functions have the compiled
module's names and argument order, of every release from 2.1 to 2.20; a quantised tensor is known
by its fields, as each release has other classes.
"""

from __future__ import annotations

import math

import torch

E4M3, E5M2 = 7, 8  # as transformer_engine_torch.DType numbers them
FP8 = {E4M3: torch.float8_e4m3fn, E5M2: torch.float8_e5m2}
LARGEST = {E4M3: 448.0, E5M2: 57344.0}
TORCH_OF = {
    0: torch.uint8,
    2: torch.int32,
    4: torch.float32,
    5: torch.float16,
    6: torch.bfloat16,
    **FP8,
}


def quantize(source, quantizer, output=None, noop=None):
    """source * scale as FP8, saturating; its amax goes where the quantizer keeps it."""
    _only_delayed(quantizer, "quantize")
    source = source.detach()
    if output is None:
        output = quantizer.make_empty(tuple(source.shape), dtype=source.dtype, device="cpu")
    if noop is not None and noop.numel() and float(noop) != 0:
        return output
    values, kind = source.float(), int(quantizer.dtype)
    if values.numel():
        largest = torch.nan_to_num(values.abs(), nan=0.0, posinf=math.inf).amax()
        torch.maximum(quantizer.amax, largest.reshape(1), out=quantizer.amax)
    scaled = (values * quantizer.scale).clamp(-LARGEST[kind], LARGEST[kind])
    codes = scaled.to(FP8[kind]).view(torch.uint8)
    if output._data is not None:
        output._data.copy_(codes.reshape(output._data.shape))
    if output._transpose is not None:
        output._transpose.copy_(codes.reshape(-1, codes.shape[-1]).t())
        output._transpose_invalid = False
    output._scale_inv.copy_((1.0 / quantizer.scale).reshape(1))
    output._fp8_dtype = quantizer.dtype
    return output


def dequantize(tensor, dtype):
    return _values(tensor).to(TORCH_OF[int(dtype)])


def bgrad_quantize(gradient, quantizer):
    """The bias gradient, of the unquantised values, and the quantised gradient."""
    rows = gradient.reshape(-1, gradient.shape[-1])
    return [rows.float().sum(0).to(gradient.dtype), quantize(gradient, quantizer)]


def fp8_transpose(data, dtype, *, out=None):
    turned = data.reshape(-1, data.shape[-1]).t().contiguous()
    return turned if out is None else out.copy_(turned)


def create_empty_quantized_tensor(quantizer, shape, dtype, device, pin_memory=False):
    """Releases from 2.11 on allocate in the compiled module."""
    from transformer_engine.pytorch.tensor.float8_tensor import Float8Tensor

    _only_delayed(quantizer, "create_empty_quantized_tensor")
    shape = tuple(shape)
    rows = math.prod(shape[:-1])
    transpose = None
    if quantizer.columnwise_usage:
        transpose = torch.empty(shape[-1], rows, dtype=torch.uint8)
    return Float8Tensor(
        shape=shape,
        dtype=dtype,
        data=torch.empty(shape, dtype=torch.uint8),
        fp8_scale_inv=torch.empty(1),
        fp8_dtype=quantizer.dtype,
        requires_grad=False,
        data_transpose=transpose,
        quantizer=quantizer,
    )


def generic_gemm(
    a,
    a_is_transposed,
    b,
    b_is_transposed,
    output,
    quantizer,
    dtype,
    bias,
    bias_dtype,
    gelu,
    gelu_input,
    is_gradient,
    workspace,
    workspace_size,
    accumulate,
    split_accumulator,
    comm_overlap=None,
    comm_type=None,
    extra_output=None,
    bulk_overlap=False,
    alpha=1.0,
    beta=None,
):
    """op(b) @ op(a), both row-major, with fp32 sums: [b rows, a rows]. In a backward GEMM `bias`
    asks for the bias gradient, elsewhere it is added."""
    if gelu or comm_overlap is not None or quantizer is not None or alpha != 1.0:
        raise NotImplementedError(
            "generic_gemm: no stand-in for GELU, overlap, quantised output or alpha"
        )
    left, right = _matrix(b), _matrix(a)
    result = (left.t() if b_is_transposed else left) @ (right.t() if a_is_transposed else right)
    bias_gradient = None
    if bias is not None and bias.numel():
        if is_gradient:
            bias_gradient = left.sum(0).to(TORCH_OF[int(bias_dtype)])
        else:
            result = result + bias.detach().float()
    result = result.to(TORCH_OF[int(dtype)] if dtype is not None else torch.float32)
    if not b_is_transposed:
        result = result.reshape(*tuple(b.size())[:-1], result.shape[-1])
    if output is not None:
        output.copy_(output + result if accumulate else result)
        result = output
    return [result, bias_gradient, gelu_input, extra_output]


def layernorm_fwd(source, weight, bias, eps, output, quantizer, dtype, sm_margin, zero_centred):
    """Normalised rows, quantised where a quantizer is given; the rows' means and 1 / deviations."""
    rows = source.detach().float()
    mean = rows.mean(-1)
    deviation = torch.rsqrt((rows - mean.unsqueeze(-1)).square().mean(-1) + eps)
    normal = (rows - mean.unsqueeze(-1)) * deviation.unsqueeze(-1)
    gamma = weight.detach().float() + (1.0 if zero_centred else 0.0)
    result = normal * gamma + bias.detach().float()
    if quantizer is not None:
        result = quantize(result, quantizer, output)
    else:
        result = result.to(TORCH_OF[int(dtype)])
        if output is not None:
            result = output.copy_(result)
    return [result, mean, deviation]


def layernorm_bwd(gradient, source, mean, deviation, weight, sm_margin, zero_centred):
    """The gradients of the rows, of gamma and of beta."""
    upstream, rows = gradient.float(), source.float()
    normal = (rows - mean.unsqueeze(-1)) * deviation.unsqueeze(-1)
    gamma = weight.float() + (1.0 if zero_centred else 0.0)
    inner = upstream * gamma
    mean_inner = inner.mean(-1, keepdim=True)
    mean_product = (inner * normal).mean(-1, keepdim=True)
    result = (inner - mean_inner - normal * mean_product) * deviation.unsqueeze(-1)
    return [
        result.to(gradient.dtype),
        (upstream * normal).sum(0).to(weight.dtype),
        upstream.sum(0).to(weight.dtype),
    ]


def srelu(source, quantizer):
    """max(x, 0)^2."""
    result = torch.relu(source.detach().float()).square()
    return result.to(source.dtype) if quantizer is None else quantize(result, quantizer)


def dsrelu(gradient, source, quantizer):
    result = _squared_relu_gradient(gradient, source)
    return result if quantizer is None else quantize(result, quantizer)


def dbias_dsrelu(gradient, source, quantizer):
    return bgrad_quantize(_squared_relu_gradient(gradient, source), quantizer)


def fused_amax_and_scale_update_after_reduction(reduced, histories, scales, *settings):
    """The update of every module in one kernel: a column that has seen nothing does not roll.
    settings: algorithm, FP8 type, margin; up to 1.13 the inverse scales stand before them."""
    *inverses, algorithm, dtype, margin = settings
    parts = torch.split(reduced, [scale.numel() for scale in scales])
    largest = LARGEST[int(dtype)] * 2.0 ** (-margin)
    for part, history, scale in zip(parts, histories, scales, strict=True):
        _fused_update(part, history, scale, algorithm, largest)
    for scale, inverse in zip(scales, inverses[0] if inverses else [], strict=False):
        inverse.copy_(1.0 / scale)


def _fused_update(reduced, history, scale, algorithm: str, largest: float) -> None:
    last = torch.where(reduced != 0, reduced, history[0])
    seen, nothing = last != 0, torch.zeros_like(last)
    rows = torch.cat([history[1:], last.unsqueeze(0)])
    amax = last if algorithm == "most_recent" else torch.where(seen, _largest(rows), nothing)
    rolled = torch.cat([nothing.unsqueeze(0), rows[1:]])
    history.copy_(torch.where(seen, rolled, history))
    found = torch.full_like(amax, largest) / amax
    found = torch.where(torch.isfinite(amax) & (amax > 0), found, scale)
    scale.copy_(torch.where(torch.isinf(found), torch.finfo(torch.float32).max, found))


def _largest(rows):
    """Of each column, NaNs left out."""
    return torch.where(torch.isnan(rows), 0.0, rows).amax(0)


def _squared_relu_gradient(gradient, source):
    positive = torch.relu(source.float())
    return (2.0 * positive * gradient.float()).to(gradient.dtype)


def _matrix(tensor):
    values = _values(tensor)
    return values.reshape(-1, values.shape[-1])


def _values(tensor):
    """As fp32; of a quantised tensor that keeps its transpose alone, from that."""
    if not hasattr(tensor, "_scale_inv"):
        return tensor.detach().float()
    codes = tensor._data
    if codes is None:
        codes = tensor._transpose.t().contiguous()
    return codes.view(FP8[int(tensor._fp8_dtype)]).float() * tensor._scale_inv


def _only_delayed(quantizer, name: str) -> None:
    """Other recipes' quantizers share the entry point; computing theirs as this one's is wrong."""
    kind = type(quantizer).__name__
    if kind != "Float8Quantizer":
        raise NotImplementedError(f"{name}: no stand-in for {kind}; only delayed scaling has one")


EMULATED = (
    quantize,
    dequantize,
    bgrad_quantize,
    fp8_transpose,
    create_empty_quantized_tensor,
    generic_gemm,
    layernorm_fwd,
    layernorm_bwd,
    srelu,
    dsrelu,
    dbias_dsrelu,
    fused_amax_and_scale_update_after_reduction,
)
