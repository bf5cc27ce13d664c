/* SPDX-License-Identifier: Apache-2.0 */
/* A user's program in C against the installed package: it asks a mesh, and sums on four threads. */
#include <rankmesh/rankmesh.h>

#include <stdio.h>

static int sum_of_ranks(rankmesh_world* world, void* user) {
    const rankmesh_declaration plan = {.mesh = "dp=2 tp=2"};
    rankmesh_member* me = NULL;
    rankmesh_communicator* tp = NULL;
    int rank = 0, sum;
    int error = rankmesh_world_rank(world, &rank);
    (void)user;
    if (error == 0) error = rankmesh_world_join(world, &plan, 1, &me);
    if (error == 0) error = rankmesh_member_on(me, "tp", &tp);
    sum = rank;
    if (error == 0) error = rankmesh_all_reduce(tp, &sum, &sum, 1, RANKMESH_I32, RANKMESH_SUM, NULL);
    rankmesh_communicator_free(tp);
    rankmesh_member_free(me);
    return error ? error : sum != (rank < 2 ? 1 : 5);
}

int main(void) {
    rankmesh_mesh* mesh = NULL;
    int next = 0;
    int error = rankmesh_mesh_parse("pp=4 dp=8 tp=8", 0, &mesh);
    if (error == 0) error = rankmesh_mesh_neighbor(mesh, 67, "pp", 1, RANKMESH_OPEN, &next);
    rankmesh_mesh_free(mesh);
    if (error == 0) error = rankmesh_threads_run(4, sum_of_ranks, NULL, NULL);
    printf("after rank 67 comes %d; %s\n", next, error ? rankmesh_error_text() : "sums are right");
    return error;
}
