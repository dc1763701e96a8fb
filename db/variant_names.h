// Names of variants that are not in a job, in errors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "db/records.h"

namespace varifocal::db {

// The variant that runs as `name` does: temperatures are numbers, "0.70" is "0.7", and a model at the temperature that it
// was trained with (t=1 without focal attention) is the model as it is. "" for none.
std::string StoredVariantName(const std::string& name, const std::vector<VariantRecord>& variants);

// "; \"baseline@t=0.70\" is stored as baseline@t=0.7", or "".
std::string StoredAs(const std::string& name, const std::vector<VariantRecord>& variants);

// "job 2 has no variant \"other\", only a, b", with the name that it is stored as.
std::string NoSuchVariant(int64_t job_id, const std::string& name, const std::vector<VariantRecord>& variants);

}  // namespace varifocal::db
