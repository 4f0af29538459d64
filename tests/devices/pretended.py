"""A CUDA device that is pretended: tensors lie in memory, and torch sees them on the CPU.

`torch._subclasses.FakeTensorMode` knows devices and shapes, but no numbers, so that all that asks
for one (`.item()`, `unique`, a mask as an index) ends there. Here the numbers are computed. What is
pretended is where a tensor lies: memory is on "CUDA" where a call has put it there or computed it
from what is there, and an operation on tensors of two devices raises as CUDA's would.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)

_ATEN = torch.ops.aten
# These take tensors of any device: they copy, or give a number to the host.
_ANY = {_ATEN.copy_, _ATEN._to_copy, _ATEN.set_, _ATEN._local_scalar_dense}
# Indices may stay on the CPU, as may a number that is put in their places.
_INDEXED = {_ATEN.index, _ATEN.index_put, _ATEN.index_put_, _ATEN._index_put_impl_}
# Takes a number of the CPU although it does not say that it works element by element.
_WITH_A_NUMBER = {_ATEN.masked_fill, _ATEN.masked_fill_, _ATEN.fill_, _ATEN.fill}
# CUDA has no products of whole numbers.
_PRODUCTS = {_ATEN.mm, _ATEN.bmm, _ATEN.addmm, _ATEN.baddbmm, _ATEN.mv, _ATEN.dot, _ATEN.addmv}


class PretendedCuda:
    """Where tensors lie while the context is open."""

    def __init__(self) -> None:
        self._there: dict[int, StorageWeakRef] = {}
        self._here: dict[int, StorageWeakRef] = {}
        # Inside one of torch's functions of tensors there, which makes others beside these.
        self.within = False

    @contextmanager
    def __call__(self) -> Iterator["PretendedCuda"]:
        """Inside, `"cuda"` is a device that tensors and modules move to."""
        with _Calls(self), _Operations(self):
            yield self

    def device(self, tensor: Tensor) -> torch.device:
        """Where a tensor lies."""
        storage = tensor.untyped_storage()
        known = self._there.get(storage._cdata)
        return CPU if known is None or known.expired() else CUDA

    def place(self, found: Any, device: torch.device) -> Any:
        """What a call has made lies there from now on."""
        for tensor in _tensors(found):
            storage = tensor.untyped_storage()
            if device.type == "cuda":
                self._there[storage._cdata] = StorageWeakRef(storage)
            else:
                self._there.pop(storage._cdata, None)
        return found


class _Calls(TorchFunctionMode):
    """Calls of Python: what a tensor says of its device, and what names one."""

    def __init__(self, cuda: PretendedCuda) -> None:
        super().__init__()
        self.cuda = cuda

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func in _PROPERTIES:
            return _PROPERTIES[func](self.cuda.device(args[0]))
        if func is Tensor.__deepcopy__:
            return self.cuda.place(func(*args, **kwargs), self.cuda.device(args[0]))
        if func in (Tensor.numpy, Tensor.__array__) and self.cuda.device(args[0]) == CUDA:
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        if func in (Tensor.to, Tensor.cpu, Tensor.cuda, Tensor.type_as):
            return self._moved(func, *args, **kwargs)
        if kwargs.get("device") is not None:
            return self._made(func, args, kwargs)
        if func is Tensor.new_tensor:
            return self.cuda.place(func(*args, **kwargs), self.cuda.device(args[0]))
        self.cuda.within = any(self.cuda.device(one) == CUDA for one in _tensors((args, kwargs)))
        try:
            return func(*args, **kwargs)
        finally:
            self.cuda.within = False

    def _moved(self, func: Any, tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        named = [*args, *kwargs.values()]
        if func in (Tensor.cpu, Tensor.cuda):
            named = [CPU if func is Tensor.cpu else CUDA]
        before = after = self.cuda.device(tensor)
        dtype = next((one for one in named if isinstance(one, torch.dtype)), None)
        for one in named:
            if isinstance(one, Tensor):
                after, dtype = self.cuda.device(one), one.dtype
            elif isinstance(one, (str, torch.device)):
                after = _plain(one)
        found = (
            tensor if dtype is None else Tensor.to(tensor, dtype, copy=kwargs.get("copy", False))
        )
        if before == after:
            return found
        own = found.untyped_storage()._cdata == tensor.untyped_storage()._cdata
        return self.cuda.place(found.clone() if own else found, after)

    def _made(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """What is made on a device that is named."""
        after, given = _plain(kwargs["device"]), list(_tensors((args, kwargs)))
        generator = kwargs.get("generator")
        if generator is not None and generator.device.type != after.type:
            raise RuntimeError(
                f"Expected a '{after.type}' device type for generator but found "
                f"'{generator.device.type}'"
            )
        found = func(*args, **{**kwargs, "device": CPU})
        if not isinstance(found, Tensor):
            return found
        if given and all(self.cuda.device(tensor) == after for tensor in given):
            return self.cuda.place(found, after)
        own = {tensor.untyped_storage()._cdata for tensor in given}
        shared = found.untyped_storage()._cdata in own
        return self.cuda.place(found.clone() if shared else found, after)


class _Operations(TorchDispatchMode):
    """Operations on numbers, those of a backward pass among them."""

    def __init__(self, cuda: PretendedCuda) -> None:
        super().__init__()
        self.cuda = cuda

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = list(_tensors((args, kwargs)))
        there = [self.cuda.device(tensor) == CUDA for tensor in given]
        if not any(there):
            found = func(*args, **kwargs)
            return self.cuda.place(found, CUDA) if self.cuda.within and not given else found
        self._check(func, args, kwargs, given, there)
        found = func(*args, **kwargs)
        own = {tensor.untyped_storage()._cdata for tensor in given}
        made = [t for t in _tensors(found) if t.untyped_storage()._cdata not in own]
        self.cuda.place(made, CUDA)
        return found

    def _check(
        self, func: Any, args: Any, kwargs: Any, given: list[Tensor], there: list[bool]
    ) -> None:
        packet = func.overloadpacket
        if packet in _PRODUCTS and not given[0].is_floating_point() and not given[0].is_complex():
            raise NotImplementedError(f'"{func}" not implemented for {given[0].dtype} on CUDA')
        generator = kwargs.get("generator")
        generators = [generator, *(one for one in args if isinstance(one, torch.Generator))]
        if any(one is not None and one.device.type == "cpu" for one in generators):
            raise RuntimeError("Expected a 'cuda' device type for generator but found 'cpu'")
        if packet in _ANY or all(there):
            return
        number = torch.Tag.pointwise in func.tags or packet in _WITH_A_NUMBER
        if packet in _INDEXED:
            given = [args[0], *(() if packet is _ATEN.index else (args[2],))]
            there, number = [self.cuda.device(tensor) == CUDA for tensor in given], there[0]
        if not all(on or (number and one.ndim == 0) for one, on in zip(given, there, strict=True)):
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two devices, "
                f"cuda:0 and cpu! (in {func})"
            )


_PROPERTIES: dict[Any, Callable[[torch.device], Any]] = {
    Tensor.device.__get__: lambda device: device,
    Tensor.is_cuda.__get__: lambda device: device == CUDA,  # type: ignore[attr-defined]
    Tensor.is_cpu.__get__: lambda device: device == CPU,  # type: ignore[attr-defined]
    Tensor.get_device: lambda device: 0 if device == CUDA else -1,
}


def _plain(device: Any) -> torch.device:
    found = torch.device(device)
    return CUDA if found.type == "cuda" else found


def _tensors(found: Any) -> Iterator[Tensor]:
    return (one for one in tree_leaves(found) if isinstance(one, Tensor))
