/* SPDX-License-Identifier: Apache-2.0 */
#include <rankmesh/rankmesh.h>

#include <stdio.h>
#include <stdlib.h>

#define TRY(call) \
    if ((error = (call)) != RANKMESH_OK) goto end

/* What one rank does; 0, or the number of what went wrong. */
static int train(rankmesh_world* world, void* user) {
    const rankmesh_axes over[] = {{.axes = "dp,tp"}};
    const rankmesh_declaration plan = {.mesh = "dp=* tp=2", .over = over, .over_count = 1};
    rankmesh_member* me = NULL;
    rankmesh_communicator *tp = NULL, *all = NULL;
    rankmesh_pending* sum = NULL;
    float grads[1000], norm = 3;
    int error, rank;

    for (int i = 0; i < 1000; ++i) grads[i] = 1;
    TRY(rankmesh_world_join(world, &plan, 1, &me));
    TRY(rankmesh_member_on(me, "tp", &tp));
    TRY(rankmesh_member_on(me, "dp,tp", &all));
    /* A non-NULL last argument starts the operation and returns at once; NULL blocks. */
    TRY(rankmesh_all_reduce(all, grads, grads, 1000, RANKMESH_F32, RANKMESH_SUM, &sum));
    TRY(rankmesh_all_reduce(tp, &norm, &norm, 1, RANKMESH_F32, RANKMESH_MAX, NULL));
    TRY(rankmesh_pending_wait(sum));
    TRY(rankmesh_world_rank(world, &rank));
    if (rank == 0) printf("%g ranks, norm %g\n", grads[0], norm);
end:
    if (error) fprintf(stderr, "%s\n", rankmesh_error_text());
    if (error)
        rankmesh_pending_abandon(sum); /* a rank that failed does not wait for its peers */
    else
        rankmesh_pending_free(sum);
    rankmesh_communicator_free(all);
    rankmesh_communicator_free(tp);
    rankmesh_member_free(me);
    (void)user;
    return error;
}

int main(int argc, char** argv) {
    rankmesh_world* world = NULL;
    int error;
    if (argc > 1) return rankmesh_threads_run(atoi(argv[1]), train, NULL, NULL);

    TRY(rankmesh_world_from_environment(NULL, &world));
    error = train(world, NULL);
end:
    if (!world) fprintf(stderr, "%s\n", rankmesh_error_text());
    if (error)
        rankmesh_world_abandon(world);
    else
        rankmesh_world_free(world);
    return error;
}
