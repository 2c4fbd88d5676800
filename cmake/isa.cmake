# Per-instruction-set flags. Files named *_avx2.c in src/kernels/x86 are built for AVX2 + FMA + F16C; which of them runs is
# decided at run time by the router. Such a file must keep every function from a shared header static: the linker may
# otherwise keep the AVX2 copy for everybody.
file(GLOB avx2_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/x86/*_avx2.c)
set_source_files_properties(${avx2_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
# *_avx512.c: the same for AVX-512 F, BW, DQ and VL.
file(GLOB avx512_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/x86/*_avx512.c)
set_source_files_properties(
  ${avx512_sources} PROPERTIES COMPILE_OPTIONS
                               "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mprefer-vector-width=512")

# The same for AVX-512 with VNNI and VBMI.
file(GLOB avx512vnni_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/x86/*_avx512vnni.c)
set_source_files_properties(${avx512vnni_sources} PROPERTIES COMPILE_OPTIONS
  "-mavx2;-mfma;-mf16c;-mavx512f;-mavx512bw;-mavx512dq;-mavx512vl;-mavx512vnni;-mavx512vbmi")

# The row-wise reference kernels a second time: the same source, hence the same bits, in AVX2 instructions. They keep
# everything but their entries static, and which copy runs is the router's choice.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(twice act attn conv embed gdn moe_route norm rope)
  list(TRANSFORM twice PREPEND ${CMAKE_SOURCE_DIR}/src/kernels/ref/)
  list(TRANSFORM twice APPEND .c)
  add_library(pawl_kernels_ref_avx2 STATIC ${twice})
  target_compile_options(pawl_kernels_ref_avx2 PRIVATE -mavx2 -mfma)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU") # jamming two rows of the state together keeps gdn's sums out of registers
    target_compile_options(pawl_kernels_ref_avx2 PRIVATE -fno-loop-unroll-and-jam)
  endif()
  target_compile_definitions(pawl_kernels_ref_avx2 PRIVATE PAWL_FOR_AVX2)
  target_link_libraries(pawl_kernels_ref_avx2 PUBLIC pawl_kernels_ref) # their predicates
  get_target_property(list_type pawl_kernels_list TYPE)
  if(list_type STREQUAL "INTERFACE_LIBRARY")
    target_link_libraries(pawl_kernels_list INTERFACE pawl_kernels_ref_avx2)
  else()
    target_link_libraries(pawl_kernels_list PUBLIC pawl_kernels_ref_avx2)
  endif()
  set_property(GLOBAL APPEND PROPERTY PAWL_LAYERS pawl_kernels_ref_avx2)
endif()

# For another processor the x86 bodies are empty files, and its compiler knows none of these flags.
if(NOT CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  file(GLOB x86_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/x86/*.c)
  set_source_files_properties(${x86_sources} PROPERTIES COMPILE_OPTIONS "")
endif()
