/* What libstdc++ of GCC 12 asks of glibc 2.32 and 2.36, for older ones. */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#pragma GCC visibility push(hidden)

/* Counts of shared pointers are atomic from the first on. */
char __libc_single_threaded = 0;

/* What std::random_device reads. */
uint32_t arc4random(void) {
    uint32_t bits;
    if (getrandom(&bits, sizeof bits, 0) != sizeof bits) abort();
    return bits;
}
