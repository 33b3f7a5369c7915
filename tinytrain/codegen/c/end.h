/* The last line of every C file: the end of what kernels.h begins. */
#if defined(TT_KERNELS_H) && defined(__clang__) && defined(__FMA__)
#pragma clang attribute pop
#endif
