// The thread pools of a server: calls that block on different resources have different threads, so that slow or
// blocked work of one kind does not delay the others.
//
//   control  Get, List, Cancel: memory and short reads of the database, never a user's file
//   submit   SubmitJob and its dry runs: read data files, build prompts; ImportScores: reads all answers of a job
//   change   ResumeJob, DeleteJob, UnloadModel: read data files, rewrite a job's pages, wait for an engine to stop
//   load     LoadModel: reads checkpoints
//   text     Tokenize, Detokenize, and the encoding of prompts before they go to an engine
//   start    submits encoded requests to engines
#pragma once

#include "base/clock.h"
#include "server/rpc/limits.h"
#include "server/rpc/rpc_pool.h"

namespace varifocal {

struct RpcPools {
  explicit RpcPools(const Clock& clock = Clock::Real())
      : start("start", 1, kAdmittedCallsMax, clock),
        control("control", kControlThreads, kPoolQueueMax, clock),
        submit("submit", kSubmitThreads, kPoolQueueMax, clock),
        change("change", kChangeThreads, kPoolQueueMax, clock),
        load("load", kLoadThreads, kPoolQueueMax, clock),
        text("text", kTextThreads, kPoolQueueMax, clock) {}

  RpcPool start;  // first, so that it outlives those that post to it
  RpcPool control, submit, change, load, text;
};

}  // namespace varifocal
