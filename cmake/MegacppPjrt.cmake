# SPDX-License-Identifier: Apache-2.0
# The header of the PJRT C API as megacpp_external::pjrt, for building only: plugins are loaded at run time and nothing
# installed needs it. It comes with the packaged CPU plugin (megacpp plugins fetch cpu, or the wheel xla-cpu-pjrt), which
# is unpacked into one folder with it. Without the header megacpp_pjrt_reason says why the XLA lane is off.
set(MEGACPP_PJRT_HEADER_DIR "" CACHE PATH "Folder of pjrt_c_api.h and the CPU plugin; empty: the user's cache of plugins")

set(folder "${MEGACPP_PJRT_HEADER_DIR}")
if(NOT folder)
  set(cache "$ENV{XDG_CACHE_HOME}")
  if(NOT cache)
    set(cache "$ENV{HOME}/.cache")
  endif()
  set(folder "${cache}/megacpp/plugins/cpu")
endif()

set(megacpp_pjrt_reason "")
if(EXISTS "${folder}/pjrt_c_api.h")
  add_library(megacpp_external::pjrt INTERFACE IMPORTED GLOBAL)
  target_include_directories(megacpp_external::pjrt INTERFACE "${folder}")
  target_compile_definitions(megacpp_external::pjrt INTERFACE MEGACPP_PJRT_CPU_PLUGIN="${folder}/xla_cpu_pjrt.so")
else()
  set(megacpp_pjrt_reason "no pjrt_c_api.h in ${folder}; set MEGACPP_PJRT_HEADER_DIR or fetch the CPU plugin")
endif()
