// Converts job specifications between the proto message and the structs of eval_tasks/job_spec.h.
//
// Conversion only: ValidateSuiteSpec and ValidateJobSpec check ranges. A field that is unset in the message has its
// default in the struct, and a default is left unset in the message where the message distinguishes both.
//
// Errors: INVALID_ARGUMENT (BAD_RESOURCE_NAME) for a variant whose model is not "models/NAME", (BAD_JOB_SPEC) for one that
//         is text and not as ParseVariant reads it, (BAD_ATTENTION_OVERRIDE) for a setting that is given twice.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "eval_tasks/job_spec.h"
#include "varifocal/v1/config.pb.h"

namespace varifocal {

// Joins `folder` with the paths among the parameters that are relative, and clears it. Without a folder nothing changes.
void ResolvePaths(v1::SuiteConfig* suite);

// Paths are resolved.
SuiteSpec FromProto(const v1::SuiteConfig& proto);
v1::SuiteConfig ToProto(const SuiteSpec& suite);

absl::StatusOr<JobSpec> FromProto(const v1::JobSpec& proto);
v1::JobSpec ToProto(const JobSpec& spec);

// SHA-256 over the message with maps in the order of their keys, paths resolved and variants in one form: the same for
// equal messages of any client library, and the digest that jobs of earlier versions were stored with.
std::string MessageSha256(const v1::JobSpec& spec);

}  // namespace varifocal
