# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""MPI_Allreduce of GPU memory from Python, by mpi4py and nothing else.

    mpirun -n 4 python3 device_array.py

Any object with __cuda_array_interface__ will do for mpi4py (3.1 or newer): an array of CuPy, Numba or PyTorch, or
DeviceArray below, which needs only the CUDA runtime and stands for them here.
"""
import array
import ctypes
import os
import sys


def give_up(reason):
    """Ends all ranks; rank 0 says why."""
    sys.exit(reason if os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0" else 1)


try:
    from mpi4py import MPI
except ImportError as error:
    give_up("%s cannot import mpi4py (%s): install it for this Python, or use one that has it (Debian: python3-mpi4py, "
            "for /usr/bin/python3)" % (sys.executable, error))

DEVICE_TO_HOST, HOST_TO_DEVICE = 2, 1


def load_cudart():
    """The newest CUDA runtime that is found, of CUDA 13, 12 or 11."""
    for version in ("13", "12", "11.0"):
        try:
            return ctypes.CDLL("libcudart.so." + version)
        except OSError:
            pass
    give_up("there is no libcudart.so.13, .12 or .11.0: name its folder in LD_LIBRARY_PATH")


cudart = load_cudart()


def check(status):
    if status != 0:
        raise RuntimeError("CUDA error %d" % status)


class DeviceArray:
    """A vector of numbers in GPU memory. typecode: as in the module array: 'd', 'f', 'i'."""

    TYPES = {"d": "<f8", "f": "<f4", "i": "<i4"}

    def __init__(self, typecode, values):
        self.typecode = typecode
        self.count = len(values)
        self.bytes = self.count * array.array(typecode).itemsize
        self.address = ctypes.c_void_p()
        check(cudart.cudaMalloc(ctypes.byref(self.address), ctypes.c_size_t(max(self.bytes, 1))))
        self.write(values)

    def __del__(self):
        cudart.cudaFree(self.address)

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.count,), "typestr": self.TYPES[self.typecode], "data": (self.address.value, False),
                "strides": None, "version": 3}

    def write(self, values):
        host = array.array(self.typecode, values)
        check(cudart.cudaMemcpy(self.address, ctypes.c_void_p(host.buffer_info()[0]), ctypes.c_size_t(self.bytes),
                                HOST_TO_DEVICE))

    def read(self):
        host = array.array(self.typecode, bytes(self.bytes))
        check(cudart.cudaMemcpy(ctypes.c_void_p(host.buffer_info()[0]), self.address, ctypes.c_size_t(self.bytes),
                                DEVICE_TO_HOST))
        return host.tolist()


def choose_gpu(comm):
    """One GPU for each rank of a node, in turn."""
    gpus = ctypes.c_int()
    if cudart.cudaGetDeviceCount(ctypes.byref(gpus)) != 0 or gpus.value == 0:
        print("rank %d finds no GPU" % comm.rank, file=sys.stderr)
        comm.Abort(1)
    node = comm.Split_type(MPI.COMM_TYPE_SHARED)
    check(cudart.cudaSetDevice(node.rank % gpus.value))
    node.Free()


def main():
    comm = MPI.COMM_WORLD
    choose_gpu(comm)
    mine = DeviceArray("d", [comm.rank + 0.5 * i for i in range(1 << 16)])
    total = DeviceArray("d", [0.0] * mine.count)
    comm.Allreduce(mine, total, op=MPI.SUM)
    if comm.rank == 0:
        print("sums over %d ranks:" % comm.size, total.read()[:4], "...")


if __name__ == "__main__":
    main()
