"""Registration with torch.library: one schema, a fake for tracing, and autograd, from three plain functions an operator has.

An operator with several outputs returns a tuple, None for each that this call does not compute. torch.library knows no optional
outputs, so the registered operator gives an empty tensor there.
"""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import forward_ad
from torch.overrides import has_torch_function
from torch.utils._python_dispatch import _get_current_dispatch_mode

from cute_kernels.runtime.simulate import current, entered

Outputs = torch.Tensor | tuple[torch.Tensor | None, ...]
Gradients = tuple[torch.Tensor | None, ...]
PLAIN = (torch.Tensor, torch.nn.Parameter)


def register(
    operator: str,
    schema: str,
    forward: Callable[..., Outputs],
    fake: Callable[..., Outputs],
    backward: Callable[..., Gradients] | None = None,
    kept: tuple[int, ...] = (),
) -> Callable[..., Any]:
    """`cute_kernels::<operator>`, callable.

    backward(needs, gradients, arguments, kept) returns a gradient for each argument that `needs` names, and None for
    the rest. Of the outputs' gradients those of unused outputs are None. `kept` numbers the outputs that backward sees
    again: by-products that are not differentiated themselves.
    """
    op = torch.library.custom_op(f"cute_kernels::{operator}", whole(forward), mutates_args=(), schema=schema)
    op.register_fake(whole(fake))
    if backward is not None:
        op.register_autograd(
            functools.partial(run_backward, operator, backward), setup_context=functools.partial(save, kept)
        )

    def call(*inputs: Any) -> Any:
        if forward_ad._current_level >= 0 and any(map(dual, inputs)):  # torch would take the tangents for zero
            raise NotImplementedError(f"{operator}: forward-mode differentiation is not supported; use reverse mode")
        return forward(*inputs) if plain(inputs) else op(*inputs)

    return call


def whole(function: Callable[..., Outputs]) -> Callable[..., Any]:
    """`function` with an empty tensor for each output that it leaves out."""

    @functools.wraps(function)
    def _whole(*inputs: Any) -> Any:
        outputs = function(*inputs)
        if isinstance(outputs, torch.Tensor):
            return outputs
        some = next(output for output in outputs if output is not None)
        return tuple(some.new_empty(0) if output is None else output for output in outputs)

    return _whole


def dual(value: Any) -> bool:
    """Whether `value` carries a tangent."""
    return isinstance(value, torch.Tensor) and forward_ad.unpack_dual(value).tangent is not None


def plain(inputs: tuple[Any, ...]) -> bool:
    """Whether nobody watches the call: no gradient asked for, nothing traced, no subclass, no mode, no sign still to be flipped.

    Then the forward runs as it is: the dispatcher's way through a Python operator costs more than a short kernel.
    """
    if torch.compiler.is_compiling() or has_torch_function(inputs):
        return False
    if _get_current_dispatch_mode() is not None or torch._C._functorch.maybe_current_level() is not None:
        return False
    watched = torch.is_grad_enabled()
    for value in inputs:
        if isinstance(value, torch.Tensor) and (
            type(value) not in PLAIN or value.is_neg() or (watched and value.requires_grad)
        ):
            return False
    return True


def save(kept: tuple[int, ...], ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    """Keep the inputs and some outputs for backward, and the simulation that the forward ran under."""
    by_products = [output[number] for number in kept]
    ctx.set_materialize_grads(False)
    ctx.mark_non_differentiable(*by_products)
    ctx.is_tensor = tuple(isinstance(value, torch.Tensor) for value in inputs)
    ctx.others = tuple(value for value in inputs if not isinstance(value, torch.Tensor))
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)), *by_products)
    ctx.simulation = current()


def run_backward(
    operator: str, backward: Callable[..., Gradients], ctx: Any, *gradients: torch.Tensor | None
) -> Gradients:
    """The operator's backward on what `save` kept, under the simulation of the forward."""
    tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
    inputs = tuple(next(tensors) if is_tensor else next(others) for is_tensor in ctx.is_tensor)
    with entered(ctx.simulation), torch.no_grad():
        found = backward(ctx.needs_input_grad, gradients, inputs, tuple(tensors))
    if not torch.is_grad_enabled():
        return found
    sources = [source for source in (*gradients, *ctx.saved_tensors) if source is not None]
    return tuple(g if g is None else Once.apply(operator, g, *sources) for g in found)


class Once(torch.autograd.Function):
    """Passes a gradient through, tied to all it was computed from, and refuses to be differentiated itself."""

    @staticmethod
    def forward(ctx: Any, operator: str, value: torch.Tensor, *sources: torch.Tensor) -> torch.Tensor:
        ctx.operator = operator
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError(f"{ctx.operator}: double backward is not supported; its gradients are final")
