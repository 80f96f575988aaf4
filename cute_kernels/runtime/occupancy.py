"""How many clusters a GPU holds at once. SMs come in groups, and a cluster stays within one: an H200's 132 SMs hold 30 clusters of 4, not 33.

A persistent grid of one cluster too many takes twice the time, so this is asked, not computed. The driver answers for a kernel at hand;
the one below does nothing, is said to take all the shared memory of an SM, and needs no compiler.
"""

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

EMPTY_KERNEL = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry empty() { ret; }
\x00"""
THREADS = 128


@functools.cache
def clusters_at_once(device: int, size: int) -> int:
    """Clusters of `size` CTAs, one CTA an SM, that CUDA device `device` holds at once. RuntimeError where the driver fails."""
    if size == 1:
        import torch

        return torch.cuda.get_device_properties(device).multi_processor_count
    from cuda.bindings import driver

    with primary_context(driver, device):
        kernel, capacity = empty_kernel(device)
        return int(checked(driver.cuOccupancyMaxActiveClusters(kernel, configuration(driver, size, capacity))))


@contextmanager
def primary_context(driver: Any, device: int) -> Iterator[None]:
    """The device's context as the thread's own: a thread of autograd's that has launched nothing yet has none."""
    handle = checked(driver.cuDeviceGet(device))
    checked(driver.cuCtxPushCurrent(checked(driver.cuDevicePrimaryCtxRetain(handle))))
    try:
        yield
    finally:
        checked(driver.cuCtxPopCurrent())
        checked(driver.cuDevicePrimaryCtxRelease(handle))


@functools.cache
def empty_kernel(device: int) -> tuple[Any, int]:
    """The kernel, loaded for good into the current context, the device's, and the shared memory it is said to take."""
    from cuda.bindings import driver

    kernel = checked(driver.cuModuleGetFunction(checked(driver.cuModuleLoadData(EMPTY_KERNEL)), b"empty"))
    largest = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
    capacity = int(checked(driver.cuDeviceGetAttribute(largest, device)))
    allow = driver.CUfunction_attribute
    checked(driver.cuFuncSetAttribute(kernel, allow.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, capacity))
    checked(driver.cuFuncSetAttribute(kernel, allow.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
    return kernel, capacity


def configuration(driver: Any, size: int, capacity: int) -> Any:
    """The launch that is asked about: one cluster, a CTA filling its SM."""
    config, attribute, value = driver.CUlaunchConfig(), driver.CUlaunchAttribute(), driver.CUlaunchAttributeValue()
    value.clusterDim.x, value.clusterDim.y, value.clusterDim.z = size, 1, 1
    attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    attribute.value = value
    config.gridDimX, config.gridDimY, config.gridDimZ = size, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = THREADS, 1, 1
    config.sharedMemBytes, config.attrs, config.numAttrs = capacity, [attribute], 1
    return config


def checked(result: tuple[Any, ...]) -> Any:
    """A driver call's value, or its error in one line."""
    status, *values = result
    if int(status):
        raise RuntimeError(f"CUDA driver: {status.name} when asking how many clusters fit")
    return values[0] if values else None
