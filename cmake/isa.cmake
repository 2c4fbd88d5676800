# Per-instruction-set flags. Files named *_avx2.c in src/kernels/x86 are built for AVX2 + FMA + F16C; which of them runs is
# decided at run time by the router. Such a file must keep every function from a shared header static: the linker may
# otherwise keep the AVX2 copy for everybody.
file(GLOB avx2_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/kernels/x86/*_avx2.c)
set_source_files_properties(${avx2_sources} PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
