# Copyright (c) 2026 the gpuhier authors. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""conjugate_gradient.c in Python, by mpi4py on GPU memory: the x for which |A x - b| is least.

    mpirun -n 4 python3 conjugate_gradient.py

The arithmetic is on the host, for emulated GPUs; with CuPy it would be on the GPU, and the calls of MPI the same.
"""
import sys

from device_array import MPI, DeviceArray, choose_gpu

COLUMNS, MAX_STEPS = 2003, 200
ROWS = 2 * COLUMNS - 2

comm = MPI.COMM_WORLD
choose_gpu(comm)


def share(total, rank):
    """The elements of a vector that a rank owns."""
    return range(total * rank // comm.size, total * (rank + 1) // comm.size)


rows, columns = share(ROWS, comm.rank), share(COLUMNS, comm.rank)
counts = [len(share(COLUMNS, rank)) for rank in range(comm.size)]
# What MPI gets.
gpu_number, gpu_b = DeviceArray("d", [0]), DeviceArray("d", [0] * ROWS)
gpu_all, gpu_part = DeviceArray("d", [0] * COLUMNS), DeviceArray("d", [0] * len(columns))


def beside(row):
    """Row i of A has 3 in column i / 2, and this in the next one."""
    return 0.25 * (1 + row % 5)


def transposed_times(r):
    """This rank's part of the sum over all ranks of their rows times their elements of r."""
    sums = [0.0] * COLUMNS
    for row, value in zip(rows, r):
        sums[row // 2] += 3 * value
        sums[row // 2 + 1] += beside(row) * value
    gpu_all.write(sums)
    comm.Reduce_scatter(gpu_all, gpu_part, counts, op=MPI.SUM)
    return gpu_part.read()


def rows_times(part):
    """This rank's rows times a vector of which each rank has a part."""
    gpu_part.write(part)
    comm.Allgatherv(gpu_part, [gpu_all, counts])
    x = gpu_all.read()
    return [3 * x[row // 2] + beside(row) * x[row // 2 + 1] for row in rows]


def squared(part):
    gpu_number.write([sum(value * value for value in part)])
    comm.Allreduce(MPI.IN_PLACE, gpu_number, op=MPI.SUM)
    return gpu_number.read()[0]


def solve(b):
    """This rank's part of x, and the steps taken."""
    r, x, p = [b[row] for row in rows], [0.0] * len(columns), [0.0] * len(columns)
    gradient = first = None
    for step in range(MAX_STEPS):
        s = transposed_times(r)
        before, gradient = gradient, squared(s)
        first = first or gradient
        if gradient <= 1e-26 * first:
            break
        p = [a + (gradient / before if step else 0) * c for a, c in zip(s, p)]
        q = rows_times(p)
        length = gradient / squared(q)
        x = [a + length * c for a, c in zip(x, p)]
        r = [a - length * c for a, c in zip(r, q)]
    return x, step


def solve_directly(b):
    """All of x, by Gauss on the tridiagonal A transposed times A."""
    diagonal, beyond, x = [0.0] * COLUMNS, [0.0] * COLUMNS, [0.0] * COLUMNS
    for row in range(ROWS):
        j, a = row // 2, beside(row)
        diagonal[j] += 9
        beyond[j] += 3 * a
        diagonal[j + 1] += a * a
        x[j] += 3 * b[row]
        x[j + 1] += a * b[row]
    for j in range(1, COLUMNS):
        factor = beyond[j - 1] / diagonal[j - 1]
        diagonal[j] -= factor * beyond[j - 1]
        x[j] -= factor * x[j - 1]
    x[-1] /= diagonal[-1]
    for j in reversed(range(COLUMNS - 1)):
        x[j] = (x[j] - beyond[j] * x[j + 1]) / diagonal[j]
    return x


if comm.rank == 0:
    gpu_b.write([i % 17 - 0.5 * (i % 11) for i in range(ROWS)])
comm.Bcast(gpu_b, root=0)
b = gpu_b.read()
x, steps = solve(b)
direct = solve_directly(b)
gpu_number.write([max(abs(x[i] - direct[j]) for i, j in enumerate(columns))])
comm.Reduce(MPI.IN_PLACE if comm.rank == 0 else gpu_number, gpu_number, op=MPI.MAX, root=0)
error = gpu_number.read()[0]
if comm.rank == 0:
    print("conjugate gradients: %d unknowns on %d ranks, %d steps, largest difference from the direct solution %.1e"
          % (COLUMNS, comm.size, steps, error))
sys.exit(0 if error < 1e-9 else 1)
