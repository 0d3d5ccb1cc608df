# SPDX-License-Identifier: Apache-2.0
# An MPI to build the plugin libmegacpp_mpi.so with, by its compiler wrapper: OpenMPI, MPICH, or what a cluster's modules
# have put on the path. The program itself is the same without.
find_package(MPI QUIET COMPONENTS CXX)
