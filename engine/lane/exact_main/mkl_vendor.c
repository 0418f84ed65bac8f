// SPDX-License-Identifier: Apache-2.0
// MKL asks this function whether it runs on an Intel processor, and on any other ignores MKL_CBWR, so that
// the bits of a GEMM slice are not those of the whole. Linked into a program, this answer takes the place of
// MKL's own: conditional numerical reproducibility then holds on every x86-64 processor with AVX2 (decision
// 0002).
int mkl_serv_intel_cpu_true(void);
int mkl_serv_intel_cpu_true(void) {
  return 1;
}
