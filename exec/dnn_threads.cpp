#include "exec/dnn_threads.h"

#include <omp.h>

namespace unlatch::exec {

void use_one_maths_thread() { omp_set_num_threads(1); }

OneMathsThread::OneMathsThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
OneMathsThread::~OneMathsThread() { omp_set_num_threads(before_); }

}  // namespace unlatch::exec
