// Imports answers of another program; they are scored and stored like the engine's: same samples, metrics and report.
//
// An answer belongs to the sample whose prompt has the same token ids (Sample::TokenIdsSha256, as `varifocal samples`
// prints it). The job's execution has the backend "imported", so that the report shows the origin of the answers.
//
// Errors: those of db::Writer; a sample without an answer is a failed sample (NOT_FOUND), never a wrong one.
#pragma once

#include "absl/status/statusor.h"
#include "eval_tasks/answer_import.h"

namespace varifocal {

absl::StatusOr<AnswerImportResult> ImportAnswers(AnswerImport import);

}  // namespace varifocal
