// Part of programs alone that have all libraries but the C library inside: symbols of a newer glibc than 2.34 that the archives
// of Debian 12 refer to. `objdump -T PROGRAM` shows what is left (deploy/wheel.sh).
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

// For libstdc++'s std::random_device; in glibc since 2.36.
uint32_t arc4random() noexcept {
  uint32_t value = 0;
  while (getrandom(&value, sizeof(value), 0) != sizeof(value)) {
  }
  return value;
}
