#include "base/exceptions.h"

#include <exception>
#include <new>
#include <stdexcept>

#include "absl/strings/str_cat.h"

namespace varifocal {

absl::Status StatusOfException(absl::string_view action) noexcept {
  try {
    try {
      throw;
    } catch (const std::bad_alloc&) {
      return absl::ResourceExhaustedError(absl::StrCat(action, ": out of memory"));
    } catch (const std::length_error& error) {
      return absl::ResourceExhaustedError(absl::StrCat(action, ": size too large (", error.what(), ")"));
    } catch (const std::exception& error) {
      return absl::InternalError(absl::StrCat(action, ": ", error.what()));
    } catch (...) {
      return absl::InternalError(absl::StrCat(action, ": an unknown exception"));
    }
  } catch (...) {
    return absl::ResourceExhaustedError("");  // allocates nothing
  }
}

}  // namespace varifocal
