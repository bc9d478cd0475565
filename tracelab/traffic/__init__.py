"""Who sends how much to whom: communicators of the job, its operations, the edges that they use, and the bytes on them."""
