// The flags of a workload, as help shows them.
#include "tools/workload.h"

namespace unlatch::tools {

FlagGroup shape_flags() {
  return {"Shape",
          {{"stages", "S", "Stages of the model (4)"},
           {"ranks", "P", "Ranks of the pipeline: stages / chunks"},
           {"chunks", "V", "Stages a rank (the schedule's usual number)"},
           {"microbatches", "M", "Micro-batches a batch (1)"},
           {"batches", "N", "Batches (1 if every schedule is synchronous, else 64)"},
           {"drain", "yes|no", "Apply every batch on every stage (yes), or stop each rank early"},
           {"replicas", "R", "Data-parallel replicas, each on ranks of its own (1)"}}};
}

FlagGroup cost_flags() {
  return {
      "Costs of one micro-batch, one value or one a stage (boundary); bare numbers are ms",
      {{"forward", "T[,T...]", "F (1)"},
       {"backward", "T[,T...]", "B (2F)"},
       {"input-grad", "T[,T...]", "I, the input gradient half of B (B/2)"},
       {"weight-grad", "T[,T...]", "W, the weight gradient half of B (B-I)"},
       {"recompute", "T[,T...]", "R (F)"},
       {"update", "T[,T...]", "U (0)"},
       {"transfer", "T[,T...]", "Messages of both directions (0)"},
       {"activation-transfer", "T[,T...]", "Messages towards the loss (0)"},
       {"gradient-transfer", "T[,T...]", "Messages towards the input (0)"},
       {"all-reduce", "T[,T...]", "AR of a stage over its copies (0); or ring, tree (--cluster)"},
       {"push", "T[,T...]", "A copy's gradients of a stage to its server (0)"},
       {"pull", "T[,T...]", "A stage's weights from its server to a copy (0)"},
       {"overlap", "W[,W...]", "How much of R hides beside F, from 0 to 1 (1)"},
       {"sends", "HOW",
        "buffered, or rendezvous or grouped: both ranks wait for a message (buffered)"},
       {"send-engines", "HOW",
        "peer: a queue for each boundary and direction; one: for all sends of a rank (peer)"}}};
}

FlagGroup memory_flags() {
  return {
      "Memory, one value or one a stage; bare numbers are bytes",
      {{"activation-size", "SIZE[,..]", "Tape of one micro-batch (0)"},
       {"input-size", "SIZE[,..]", "Stored input of one micro-batch (0)"},
       {"weight-size", "SIZE[,..]", "One weight version (0)"},
       {"weight-grad-activation-size", "SIZE[,..]", "Part of a tape that W needs after I (0)"},
       {"gradient-size", "SIZE[,..]", "Gradient accumulator (0)"},
       {"optimizer-size", "SIZE[,..]", "State of the optimizer (0)"},
       {"memory-limit", "SIZE", "Most that a rank may keep (of a cluster: its devices' memory)"}}};
}

FlagGroup simulated_memory_flags() {
  FlagGroup group = memory_flags();
  group.flags.push_back({"output-size", "SIZE[,..]",
                         "An output, or its gradient, on its way: counted apart, not limited (0)"});
  return group;
}

FlagGroup layer_flags() {
  return {"Costs of layers",
          {{"profile", "FILE", "Measured costs of layers or stages, made by 'unlatch profile'"},
           {"threads", "T", "With a CPU's profile: workers, a core each (as many as cores here)"},
           {"cluster", "FILE|NAME", "Computed costs of --model on that hardware"},
           {"model", "NAME",
            "With --cluster: the model, or the shape of a transformer (gpt2, FILE.json ..)"},
           {"data", "SPEC", "Data whose shape the model takes (its usual one), or to train on"},
           {"precision", "P", "With --cluster: fp32, tf32, bf16 or fp16 (fp32)"},
           {"optimizer", "SPEC", "Optimizer of the update (sgd)"},
           {"placement", "D[,D...]", "With --cluster: devices of the ranks, from 0 (the file's)"},
           {"contention", "HOW", "With --cluster: none, or fair: transfers share links (none)"},
           {"batch-size", "B", "Samples a batch; of a transformer, sequences"},
           {"partition", "HOW", "auto (smallest largest cost), uniform, or n1/n2/.. layers"},
           {"uneven", "yes|no", "Allow micro-batches of different sizes (no)"}}};
}

}  // namespace unlatch::tools
