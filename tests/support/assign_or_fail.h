// ASSIGN_OR_FAIL(const auto reader, Reader::Open(path)): ASSIGN_OR_RETURN of tests, which ends the test at an error.
#pragma once

#include <gtest/gtest.h>

#include <utility>

#include "base/status_macros.h"

#define ASSIGN_OR_FAIL(left, expression) VF_ASSIGN_OR_FAIL_(VF_CONCAT_(vf_status_or_, __LINE__), left, expression)
#define VF_ASSIGN_OR_FAIL_(temporary, left, expression) \
  auto temporary = (expression);                        \
  ASSERT_TRUE(temporary.ok()) << temporary.status();    \
  left = std::move(temporary).value()
