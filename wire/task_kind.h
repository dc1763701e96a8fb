// Converts a row of the task table (eval_tasks/task.h) to a proto message.
#pragma once

#include "eval_tasks/task.h"
#include "varifocal/v1/evaluation.pb.h"

namespace varifocal {

v1::TaskKind ToProto(const TaskKind& kind);

}  // namespace varifocal
