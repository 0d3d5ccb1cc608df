// SPDX-License-Identifier: Apache-2.0
// libmegacpp_mpi.so: the only file that knows an MPI. Every call of MPI is here.
#include "megacpp/machine/collectives/mpi/mpi_plugin.h"

#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <string>

namespace {

const MPI_Comm kProcesses = MPI_COMM_WORLD;

struct Request {
  MPI_Request handle = MPI_REQUEST_NULL;
  bool is_receive = false;
  bool is_active = false;
};

void put_text(const std::string& words, char* text, int bytes) {
  const size_t count = std::min(words.size(), static_cast<size_t>(std::max(bytes, 1) - 1));
  std::memcpy(text, words.data(), count);
  text[count] = '\0';
}

const char* start(int* process, int* processes, char* host, int host_bytes) {
  int provided = MPI_THREAD_SINGLE;
  if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided) != MPI_SUCCESS) return "MPI_Init_thread failed";
  if (provided < MPI_THREAD_MULTIPLE) {
    MPI_Finalize();
    return "this MPI was built without calls from several threads (MPI_THREAD_MULTIPLE)";
  }
  MPI_Comm_set_errhandler(kProcesses, MPI_ERRORS_RETURN);
  char name[MPI_MAX_PROCESSOR_NAME + 1] = {};
  int length = 0;
  if (MPI_Comm_rank(kProcesses, process) != MPI_SUCCESS || MPI_Comm_size(kProcesses, processes) != MPI_SUCCESS ||
      MPI_Get_processor_name(name, &length) != MPI_SUCCESS)
    return "MPI does not say which process this is";
  put_text(name, host, host_bytes);
  return nullptr;
}

void library(char* text, int bytes) {
  char words[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
  int length = 0;
  MPI_Get_library_version(words, &length);
  put_text(words, text, bytes);
}

void* make_request() { return new (std::nothrow) Request; }

void free_request(void* given) {
  auto* const request = static_cast<Request*>(given);
  if (request->is_receive && request->is_active) {
    MPI_Cancel(&request->handle);
    MPI_Wait(&request->handle, MPI_STATUS_IGNORE);
  }
  if (request->handle != MPI_REQUEST_NULL) MPI_Request_free(&request->handle);
  delete request;
}

int bind_receive(void* given, void* buffer, int bytes, int tag) {
  auto* const request = static_cast<Request*>(given);
  request->is_receive = true;
  return MPI_Recv_init(buffer, bytes, MPI_BYTE, MPI_ANY_SOURCE, tag, kProcesses, &request->handle);
}

int start_receive(void* given) {
  auto* const request = static_cast<Request*>(given);
  request->is_active = true;
  return MPI_Start(&request->handle);
}

int send(void* given, const void* buffer, int bytes, int process, int tag) {
  auto* const request = static_cast<Request*>(given);
  request->is_active = true;
  return MPI_Isend(buffer, bytes, MPI_BYTE, process, tag, kProcesses, &request->handle);
}

int test(void* given, int* is_done, int* process, int* bytes) {
  auto* const request = static_cast<Request*>(given);
  MPI_Status status;
  const int error = MPI_Test(&request->handle, is_done, &status);
  if (error != MPI_SUCCESS || *is_done == 0) return error;
  request->is_active = false;
  if (!request->is_receive) return MPI_SUCCESS;
  *process = status.MPI_SOURCE;
  return MPI_Get_count(&status, MPI_BYTE, bytes);
}

void error_text(int error, char* text, int bytes) {
  char words[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  MPI_Error_string(error, words, &length);
  put_text(words, text, bytes);
}

void finish() { MPI_Finalize(); }

const MegacppMpi kTable = {.version = megacpp::collectives::kMpiTableVersion,
                           .start = start,
                           .library = library,
                           .make_request = make_request,
                           .free_request = free_request,
                           .bind_receive = bind_receive,
                           .start_receive = start_receive,
                           .send = send,
                           .test = test,
                           .error_text = error_text,
                           .finish = finish};

}  // namespace

extern "C" [[gnu::visibility("default")]] const MegacppMpi* megacpp_mpi_table() { return &kTable; }
