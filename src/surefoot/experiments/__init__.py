"""The experiments that judge the methods: the paper's S1 to S4, and S5, which goes further."""
