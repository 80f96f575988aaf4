"""Registration with torch.library: one schema, a fake for tracing, and autograd, from three plain functions an operator has."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.overrides import has_torch_function
from torch.utils._python_dispatch import _get_current_dispatch_mode

from cute_kernels.runtime.simulate import current, entered

Gradients = tuple[torch.Tensor | None, ...]
PLAIN = (torch.Tensor, torch.nn.Parameter)


def register(
    operator: str,
    schema: str,
    forward: Callable[..., torch.Tensor],
    fake: Callable[..., torch.Tensor],
    backward: Callable[..., Gradients],
) -> Callable[..., torch.Tensor]:
    """`cute_kernels::<operator>`, callable.

    backward(needs, gradient, *inputs) returns a gradient for each input that `needs` names, and None for the rest.
    """
    op = torch.library.custom_op(f"cute_kernels::{operator}", forward, mutates_args=(), schema=schema)
    op.register_fake(fake)
    op.register_autograd(functools.partial(run_backward, operator, backward), setup_context=save)

    def call(*inputs: Any) -> torch.Tensor:
        return forward(*inputs) if plain(inputs) else op(*inputs)

    return call


def plain(inputs: tuple[Any, ...]) -> bool:
    """Whether nobody watches the call: no gradient asked for, nothing traced, no subclass, no mode.

    Then the forward runs as it is: the dispatcher's way through a Python operator costs more than a short kernel.
    """
    if torch.compiler.is_compiling() or has_torch_function(inputs):
        return False
    if _get_current_dispatch_mode() is not None or torch._C._functorch.maybe_current_level() is not None:
        return False
    watched = torch.is_grad_enabled()
    for value in inputs:
        if isinstance(value, torch.Tensor) and (type(value) not in PLAIN or (watched and value.requires_grad)):
            return False
    return True


def save(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    """Keep the inputs for backward, and the simulation that the forward ran under."""
    ctx.is_tensor = tuple(isinstance(value, torch.Tensor) for value in inputs)
    ctx.others = tuple(value for value in inputs if not isinstance(value, torch.Tensor))
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, torch.Tensor)))
    ctx.simulation = current()


def run_backward(operator: str, backward: Callable[..., Gradients], ctx: Any, gradient: torch.Tensor) -> Gradients:
    """The operator's backward on what `save` kept, under the simulation of the forward."""
    tensors, others = iter(ctx.saved_tensors), iter(ctx.others)
    inputs = tuple(next(tensors) if is_tensor else next(others) for is_tensor in ctx.is_tensor)
    with entered(ctx.simulation), torch.no_grad():
        gradients = backward(ctx.needs_input_grad, gradient, *inputs)
    if not torch.is_grad_enabled():
        return gradients
    return tuple(g if g is None else Once.apply(operator, g, gradient, *ctx.saved_tensors) for g in gradients)


class Once(torch.autograd.Function):
    """Passes a gradient through, tied to all it was computed from, and refuses to be differentiated itself."""

    @staticmethod
    def forward(ctx: Any, operator: str, value: torch.Tensor, *sources: torch.Tensor) -> torch.Tensor:
        ctx.operator = operator
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        raise NotImplementedError(f"{ctx.operator}: double backward is not supported; its gradients are final")
