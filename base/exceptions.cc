#include "base/exceptions.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "base/status_macros.h"

namespace varifocal {

absl::Status StatusOfException(absl::string_view action) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return ResourceExhausted(action, ": out of memory");
    } catch (const std::length_error& error) {
      return ResourceExhausted(action, ": size too large (", error.what(), ")");
    } catch (const std::exception& error) {
      return Internal(action, ": ", error.what());
    } catch (...) {
      return Internal(action, ": an unknown exception");
    }
  } catch (...) {
    return absl::ResourceExhaustedError("");  // allocates nothing
  }
}

}  // namespace varifocal
